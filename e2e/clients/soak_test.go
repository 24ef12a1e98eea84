package clients

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// history is what became of the reports that were written.
type history struct {
	client dynamic.ResourceInterface
	// known are the reports as they were last answered; nil where one is gone.
	known map[string]*unstructured.Unstructured
	// acknowledged are versions of creates and updates that were answered.
	acknowledged []string
	failed       int
}

// write creates, updates or deletes one of the reports.
func (h *history) write(t *testing.T, round int64) {
	name := fmt.Sprintf("report-%d", rand.IntN(20))
	before, found := h.known[name]
	var after *unstructured.Unstructured
	var err error
	switch {
	case !found || before == nil:
		after, err = h.client.Create(t.Context(), report(name, round, nil), metav1.CreateOptions{})
	case rand.IntN(4) == 0:
		err = h.client.Delete(t.Context(), name, metav1.DeleteOptions{})
	default:
		object := before.DeepCopy()
		must(t, unstructured.SetNestedField(object.Object, round, "summary", "pass"))
		after, err = h.client.Update(t.Context(), object, metav1.UpdateOptions{})
	}
	if err != nil {
		h.failed++
		h.learn(t, name)
		return
	}
	h.known[name] = after
	if after != nil {
		h.acknowledged = append(h.acknowledged, after.GetResourceVersion())
	}
}

// learn looks what became of a write that was not answered, as long as that takes.
func (h *history) learn(t *testing.T, name string) {
	eventually(t, "an answer about "+name, func() bool {
		object, err := h.client.Get(t.Context(), name, metav1.GetOptions{})
		if err == nil {
			h.known[name] = object
		} else if apierrors.IsNotFound(err) {
			h.known[name] = nil
		}
		return err == nil || apierrors.IsNotFound(err)
	})
}

// tail notes the events of a watch: versions of what was added and modified, in their order.
type tail struct {
	versions []string
	deleted  int
	end      chan struct{}
}

// follow reads to the deletion of the report `last`.
func (w *tail) follow(t *testing.T, events <-chan watch.Event, last string) {
	defer close(w.end)
	for event := range events {
		object, typed := event.Object.(*unstructured.Unstructured)
		if !typed {
			t.Errorf("%s: %v", event.Type, event.Object)
			return
		}
		switch event.Type {
		case watch.Added, watch.Modified:
			w.versions = append(w.versions, object.GetResourceVersion())
		case watch.Deleted:
			if w.deleted++; object.GetName() == last {
				return
			}
		}
	}
}

// has says which acknowledged versions are missing, come twice, or out of order.
func (w *tail) check(t *testing.T, acknowledged []string) {
	times := map[string]int{}
	for i, version := range w.versions {
		times[version]++
		if i > 0 && !newer(t, version, w.versions[i-1]) {
			t.Errorf("%s after %s", version, w.versions[i-1])
		}
	}
	for _, version := range acknowledged {
		if times[version] != 1 {
			t.Errorf("the watch saw %s %d times", version, times[version])
		}
	}
}

// follower is an informer, and what its handlers were told: the version of each object that is there.
type follower struct {
	asked    *journal
	informer cache.SharedIndexInformer
	mutex    sync.Mutex
	told     map[string]string
	wrong    []string
}

// start runs the informer. What its handlers are told has to begin with what they were told before,
// and to be as new; after everything was asked for anew they may be told the same again.
func (f *follower) start(t *testing.T) {
	f.told = map[string]string{}
	_, err := f.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { f.tell(t, "", object) },
		UpdateFunc: func(before, after any) { f.tell(t, before.(metav1.Object).GetResourceVersion(), after) },
		DeleteFunc: func(object any) {
			f.mutex.Lock()
			defer f.mutex.Unlock()
			delete(f.told, name(object))
		},
	})
	must(t, err)
	go f.informer.RunWithContext(t.Context())
}

func (f *follower) tell(t *testing.T, before string, object any) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	version := object.(metav1.Object).GetResourceVersion()
	last := f.told[name(object)]
	if last != before || (last != "" && newer(t, last, version)) {
		f.wrong = append(f.wrong, fmt.Sprintf("%s: %q, then from %q to %s", name(object), last, before, version))
	}
	f.told[name(object)] = version
}

// check waits until the store has what a list gives, and the handlers were told of it.
func (f *follower) check(t *testing.T, what string, of dynamic.ResourceInterface) {
	eventually(t, what+" that agrees with the server", func() bool { return agrees(t, of, f.informer.GetStore()) })
	eventually(t, "handlers of the "+what+" that were told everything", func() bool {
		f.mutex.Lock()
		defer f.mutex.Unlock()
		held := map[string]string{}
		for _, object := range f.informer.GetStore().List() {
			held[name(object)] = object.(metav1.Object).GetResourceVersion()
		}
		return maps.Equal(held, f.told)
	})
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.wrong) > 0 {
		t.Errorf("the handlers of the %s were told out of order: %v", what, f.wrong)
	}
	starts := f.asked.count("GET", "sendInitialEvents=true") + f.asked.count("GET") - f.asked.count("GET", "watch=true")
	fmt.Printf("the %s asked %d times, %d of them for everything\n", what, f.asked.count("GET"), starts)
}

// Informers and a RetryWatcher follow what is written, while the servers are killed and replaced.
// That is done by who started this: it begins when the line `soaking` was printed, and closes
// standard input when it is done.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("needs somebody who kills servers; says so by SOAK=1")
	}
	in := namespace(t)
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	whole, names := &follower{asked: &journal{}}, &follower{asked: &journal{}}
	objects := dynamicClient(t, whole.asked.of(config(t)))
	whole.informer = dynamicinformer.NewFilteredDynamicInformer(objects, reports, in, 0, cache.Indexers{}, nil).Informer()
	partial, err := metadata.NewForConfig(names.asked.of(config(t)))
	must(t, err)
	names.informer = metadatainformer.NewFilteredMetadataInformer(partial, reports, in, 0, cache.Indexers{}, nil).Informer()
	whole.start(t)
	names.start(t)
	if !cache.WaitForCacheSync(t.Context().Done(), whole.informer.HasSynced, names.informer.HasSynced) {
		t.Fatal("the informers do not sync")
	}
	list, err := of.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	watched := &tail{end: make(chan struct{})}
	go watched.follow(t, retryWatcher(t, of, list.GetResourceVersion()).ResultChan(), "last")

	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	fmt.Println("soaking")
	written := &history{client: of, known: map[string]*unstructured.Unstructured{}}
	rounds := int64(0)
	for going := true; going; rounds++ {
		written.write(t, rounds)
		select {
		case <-over:
			going = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	last := create(t, of, "last", nil)
	written.acknowledged = append(written.acknowledged, last.GetResourceVersion())
	must(t, of.Delete(t.Context(), "last", metav1.DeleteOptions{}))
	fmt.Printf("%d writes, %d of them without an answer\n", rounds, written.failed)
	if rounds < 100 {
		t.Error("too few writes to say anything")
	}

	select {
	case <-watched.end:
	case <-time.After(patience):
		t.Fatal("the watch does not come to the last event")
	}
	watched.check(t, written.acknowledged)
	whole.check(t, "informer", of)
	names.check(t, "metadata informer", of)
}

// agrees says whether a store holds what a list gives, in the same versions.
func agrees(t *testing.T, of dynamic.ResourceInterface, store cache.Store) bool {
	list, err := of.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) != len(store.ListKeys()) {
		return false
	}
	for _, object := range list.Items {
		held, exists, err := store.GetByKey(object.GetNamespace() + "/" + object.GetName())
		must(t, err)
		if !exists || held.(metav1.Object).GetResourceVersion() != object.GetResourceVersion() {
			return false
		}
	}
	return true
}
