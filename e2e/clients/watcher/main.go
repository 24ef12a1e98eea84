// Program watcher follows reports with client-go's RetryWatchers and informers, and prints what they
// are told, one line of JSON each. It ends when standard input does.
//
// Its one argument is a list of watchers as JSON; see [wanted].
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"
)

// pause is the time before a RetryWatcher that has ended is replaced.
const pause = 200 * time.Millisecond

// wanted is a watcher that is asked for.
type wanted struct {
	Name string `json:"name"`
	// Style is `retry`, `informer` or `metadata`.
	Style    string `json:"style"`
	Group    string `json:"group"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	Selector string `json:"selector"`
	// Server is the URL of the kube-apiserver that it watches; empty for that of the kubeconfig.
	Server string `json:"server"`
}

// line is what is said of a watcher: ITEM for an object of its initial state, BEGUN after the last
// of them, the types of events, RELIST when it asks for everything again, DIED when it ends.
type line struct {
	Watcher   string `json:"w"`
	Type      string `json:"t"`
	Namespace string `json:"ns,omitempty"`
	Name      string `json:"n,omitempty"`
	Version   string `json:"v,omitempty"`
	Seq       string `json:"s,omitempty"`
	ID        string `json:"i,omitempty"`
	Why       string `json:"why,omitempty"`
}

var output struct {
	sync.Mutex
	*bufio.Writer
}

func say(line line) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	output.Lock()
	defer output.Unlock()
	_, _ = output.Write(append(text, '\n'))
	_ = output.Flush()
}

func (w wanted) resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.Group, Version: w.Version, Resource: w.Resource}
}

// tell says what happened to an object.
func (w wanted) tell(type_ string, object any) {
	if gone, unknown := object.(cache.DeletedFinalStateUnknown); unknown {
		object = gone.Obj
	}
	of, err := meta.Accessor(object)
	if err != nil {
		say(line{Watcher: w.Name, Type: "DIED", Why: err.Error()})
		return
	}
	notes := of.GetAnnotations()
	say(line{
		Watcher: w.Name, Type: type_, Namespace: of.GetNamespace(), Name: of.GetName(),
		Version: of.GetResourceVersion(), Seq: notes["chaos/seq"], ID: notes["chaos/id"],
	})
}

func (w wanted) run(ctx context.Context, config *rest.Config) error {
	if w.Server != "" {
		config = rest.CopyConfig(config)
		config.Host = w.Server
	}
	switch w.Style {
	case "retry":
		return w.retry(ctx, config)
	case "informer", "metadata":
		return w.inform(ctx, config)
	}
	return fmt.Errorf("unknown style %q", w.Style)
}

// retry follows with a RetryWatcher. One that ends is replaced after a new list, so that later
// faults are found, too.
func (w wanted) retry(ctx context.Context, config *rest.Config) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return err
	}
	of := client.Resource(w.resource())
	watches := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = w.Selector
			return of.Watch(ctx, options)
		},
	}
	for ctx.Err() == nil {
		list, err := of.List(ctx, metav1.ListOptions{LabelSelector: w.Selector})
		if err != nil {
			time.Sleep(pause)
			continue
		}
		for i := range list.Items {
			w.tell("ITEM", &list.Items[i])
		}
		say(line{Watcher: w.Name, Type: "BEGUN", Version: list.GetResourceVersion()})
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watches)
		if err != nil {
			return err
		}
		why := "its channel was closed"
		for event := range watcher.ResultChan() {
			if event.Type == watch.Error {
				text, _ := json.Marshal(event.Object)
				why = string(text)
				continue
			}
			w.tell(string(event.Type), event.Object)
		}
		if ctx.Err() == nil {
			say(line{Watcher: w.Name, Type: "DIED", Why: why})
			time.Sleep(pause)
		}
	}
	return nil
}

// starts counts the requests for everything, and says so of all but the first.
type starts struct {
	name  string
	count atomic.Int32
	inner http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (s *starts) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := s.inner.RoundTrip(request)
	query := request.URL.Query()
	watches, initial := query.Has("watch"), query.Get("sendInitialEvents") == "true"
	if err == nil && response.StatusCode == http.StatusOK && (!watches || initial) {
		if s.count.Add(1) > 1 {
			say(line{Watcher: s.name, Type: "RELIST", Why: request.URL.RawQuery})
		}
	}
	return response, err
}

// inform follows with a shared informer.
func (w wanted) inform(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		return &starts{name: w.Name, inner: inner}
	})
	informer, err := w.informer(config)
	if err != nil {
		return err
	}
	handle, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(object any, initial bool) {
			if initial {
				w.tell("ITEM", object)
			} else {
				w.tell("ADDED", object)
			}
		},
		UpdateFunc: func(before, after any) {
			// After a list the same again is told, too.
			if before.(metav1.Object).GetResourceVersion() != after.(metav1.Object).GetResourceVersion() {
				w.tell("MODIFIED", after)
			}
		},
		DeleteFunc: func(object any) { w.tell("DELETED", object) },
	})
	if err != nil {
		return err
	}
	go func() {
		if cache.WaitForCacheSync(ctx.Done(), handle.HasSynced) {
			say(line{Watcher: w.Name, Type: "BEGUN", Version: informer.LastSyncResourceVersion()})
		}
	}()
	informer.RunWithContext(ctx)
	return nil
}

func (w wanted) informer(config *rest.Config) (cache.SharedIndexInformer, error) {
	select_ := func(options *metav1.ListOptions) { options.LabelSelector = w.Selector }
	if w.Style == "metadata" {
		client, err := metadata.NewForConfig(config)
		if err != nil {
			return nil, err
		}
		return metadatainformer.NewFilteredMetadataInformer(client, w.resource(), metav1.NamespaceAll, 0, cache.Indexers{}, select_).Informer(), nil
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return dynamicinformer.NewFilteredDynamicInformer(client, w.resource(), metav1.NamespaceAll, 0, cache.Indexers{}, select_).Informer(), nil
}

func run() error {
	output.Writer = bufio.NewWriter(os.Stdout)
	var all []wanted
	if err := json.Unmarshal([]byte(os.Args[1]), &all); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return err
	}
	config.QPS = -1
	config.UserAgent = "watcher"
	// Somebody else than the operator, who reads past a gate that it holds.
	config.Impersonate = rest.ImpersonationConfig{UserName: "chaos", Groups: []string{"system:masters"}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	failed := make(chan error, len(all))
	for _, one := range all {
		go func() { failed <- one.run(ctx, config) }()
	}
	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(over)
	}()
	select {
	case err := <-failed:
		return err
	case <-over:
		return nil
	}
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: watcher WATCHERS")
		os.Exit(2)
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "watcher:", err)
		os.Exit(1)
	}
}
