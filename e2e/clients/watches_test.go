package clients

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// connections are those of a client, which can be broken.
type connections struct {
	mutex sync.Mutex
	open  []net.Conn
}

func (c *connections) of(config *rest.Config) *rest.Config {
	dialer := &net.Dialer{}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		made, err := dialer.DialContext(ctx, network, address)
		if err == nil {
			c.mutex.Lock()
			c.open = append(c.open, made)
			c.mutex.Unlock()
		}
		return made, err
	}
	return config
}

func (c *connections) cut() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, open := range c.open {
		_ = open.Close()
	}
	c.open = nil
}

func retryWatcher(t *testing.T, of dynamic.ResourceInterface, from string) *watchtools.RetryWatcher {
	t.Helper()
	lists := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return of.Watch(ctx, options)
		},
	}
	watcher, err := watchtools.NewRetryWatcherWithContext(t.Context(), from, lists)
	must(t, err)
	return watcher
}

func next(t *testing.T, events <-chan watch.Event) watch.Event {
	t.Helper()
	select {
	case event, open := <-events:
		if !open {
			t.Fatal("the watch has ended")
		}
		return event
	case <-time.After(patience):
		t.Fatal("no event")
	}
	panic("unreachable")
}

// A RetryWatcher resumes where its connection broke: no event is missed, none comes twice.
func TestRetryWatcher(t *testing.T) {
	in := namespace(t)
	writer := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	list, err := writer.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	lines := &connections{}
	of := dynamicClient(t, lines.of(config(t))).Resource(reports).Namespace(in)
	events := retryWatcher(t, of, list.GetResourceVersion()).ResultChan()

	object := create(t, writer, "watched", nil)
	versions := []string{object.GetResourceVersion()}
	for round := range int64(4) {
		for i := range int64(5) {
			object = setPass(t, writer, object, 2+round*5+i)
			versions = append(versions, object.GetResourceVersion())
		}
		lines.cut()
	}
	must(t, writer.Delete(t.Context(), "watched", metav1.DeleteOptions{}))
	for i, version := range versions {
		event := next(t, events)
		wanted := watch.Modified
		if i == 0 {
			wanted = watch.Added
		}
		got := event.Object.(*unstructured.Unstructured)
		if event.Type != wanted || got.GetResourceVersion() != version {
			t.Fatalf("event %d is %s of %s, wanted %s of %s", i, event.Type, got.GetResourceVersion(), wanted, version)
		}
	}
	if event := next(t, events); event.Type != watch.Deleted {
		t.Fatalf("%s in place of the deletion", event.Type)
	}
}

// Bookmarks come to who asks for them, with a version to resume from; a watch ends in order after
// the time that was asked for.
func TestBookmarksAndTimeouts(t *testing.T) {
	in := namespace(t)
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	create(t, of, "one", nil)
	yes, seconds := true, int64(3)
	watcher, err := of.Watch(t.Context(), metav1.ListOptions{
		AllowWatchBookmarks: true, SendInitialEvents: &yes, TimeoutSeconds: &seconds,
		ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan,
	})
	must(t, err)
	if event := next(t, watcher.ResultChan()); event.Type != watch.Added {
		t.Fatalf("%s in place of the object", event.Type)
	}
	event := next(t, watcher.ResultChan())
	mark := event.Object.(*unstructured.Unstructured)
	if event.Type != watch.Bookmark || mark.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "true" {
		t.Fatalf("%s %v in place of the bookmark", event.Type, mark)
	}
	for event := range watcher.ResultChan() {
		if event.Type != watch.Bookmark {
			t.Fatalf("%s before the end", event.Type)
		}
	}
	resumed, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: mark.GetResourceVersion()})
	must(t, err)
	defer resumed.Stop()
	create(t, of, "two", nil)
	if event := next(t, resumed.ResultChan()); event.Type != watch.Added || name(event.Object) != "two" {
		t.Fatalf("%s %s after the bookmark", event.Type, name(event.Object))
	}
}

// ListWatchUntil and Until are what `kubectl wait` is made of.
func TestUntil(t *testing.T) {
	in := namespace(t)
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	made := create(t, of, "one", nil)
	written := make(chan struct{})
	go func() {
		defer close(written)
		setPass(t, of, made, 5)
	}()
	lists := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return of.Watch(ctx, options)
	}}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	last, err := watchtools.Until(ctx, made.GetResourceVersion(), lists, func(event watch.Event) (bool, error) {
		return passed(t, event.Object.(*unstructured.Unstructured)) == 5, nil
	})
	must(t, err)
	<-written
	if last.Type != watch.Modified {
		t.Errorf("%s", last.Type)
	}
}

// A version that nobody has is refused so that client-go knows what to do.
func TestWatchFromAnUnreadableVersion(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	for _, version := range []string{"x", "-1"} {
		watcher, err := of.Watch(t.Context(), metav1.ListOptions{ResourceVersion: version})
		if err == nil {
			watcher.Stop()
			t.Errorf("a watch from %q", version)
		}
		if apierrors.IsNotFound(err) || apierrors.IsUnauthorized(err) {
			t.Errorf("from %q: %v", version, err)
		}
	}
}
