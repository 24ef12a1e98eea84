package clients

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// listWatch is what a reflector needs, for the reports of a namespace.
func listWatch(client dynamic.Interface, namespace string) cache.ListerWatcher {
	of := client.Resource(reports).Namespace(namespace)
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return of.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return of.Watch(ctx, options)
		},
	}, client)
}

// A reflector fills its store, by a list and a watch or by a watch that begins with all objects,
// and keeps it up to date.
func TestReflector(t *testing.T) {
	for _, watchList := range []bool{false, true} {
		t.Run(fmt.Sprintf("WatchList=%t", watchList), func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, watchList)
			in := namespace(t)
			asked := &journal{}
			client := dynamicClient(t, asked.of(config(t)))
			of := client.Resource(reports).Namespace(in)
			for i := range 30 {
				create(t, of, fmt.Sprintf("before-%d", i), nil)
			}

			store := cache.NewStore(cache.MetaNamespaceKeyFunc)
			reflector := cache.NewReflectorWithOptions(listWatch(client, in), &unstructured.Unstructured{},
				store, cache.ReflectorOptions{})
			go reflector.RunWithContext(t.Context())
			eventually(t, "a store with everything", func() bool { return len(store.ListKeys()) == 30 })
			initial := asked.count("GET", "watch=true", "sendInitialEvents=true")
			lists := asked.count("GET") - asked.count("GET", "watch=true")
			if watchList && (initial != 1 || lists != 0) {
				t.Errorf("%d watches with initial events and %d lists, wanted 1 and 0", initial, lists)
			}
			if !watchList && (initial != 0 || lists == 0) {
				t.Errorf("%d watches with initial events and %d lists, wanted 0 and some", initial, lists)
			}

			created := create(t, of, "after", nil)
			updated := setPass(t, of, created, 7)
			must(t, of.Delete(t.Context(), "before-0", metav1.DeleteOptions{}))
			eventually(t, "the changes", func() bool {
				found, exists, err := store.GetByKey(in + "/after")
				must(t, err)
				return exists && len(store.ListKeys()) == 30 &&
					found.(*unstructured.Unstructured).GetResourceVersion() == updated.GetResourceVersion()
			})
			eventually(t, "the reflector's version", func() bool {
				seen := reflector.LastSyncResourceVersion()
				return !newer(t, updated.GetResourceVersion(), seen)
			})
		})
	}
}

// seen is what the handlers of an informer were told.
type seen struct {
	mutex  sync.Mutex
	events []string
}

func (s *seen) note(format string, args ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.events = append(s.events, fmt.Sprintf(format, args...))
}

func (s *seen) has(event string) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Contains(s.events, event)
}

func name(object any) string {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	found, err := meta.Accessor(object)
	if err != nil {
		return err.Error()
	}
	return found.GetName()
}

func (s *seen) handler() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { s.note("add %s", name(object)) },
		UpdateFunc: func(before, after any) {
			old, _ := meta.Accessor(before)
			now, _ := meta.Accessor(after)
			if old.GetResourceVersion() == now.GetResourceVersion() {
				s.note("resync %s", name(after))
			} else {
				s.note("update %s", name(after))
			}
		},
		DeleteFunc: func(object any) { s.note("delete %s", name(object)) },
	}
}

// A shared informer with a selector sees objects come, change and leave, gives them out again at
// every resync, and finds them by its index.
func TestSharedInformer(t *testing.T) {
	in := namespace(t)
	client := dynamicClient(t, config(t))
	of := client.Resource(reports).Namespace(in)
	create(t, of, "kept", map[string]string{"team": "a"})
	create(t, of, "other", map[string]string{"team": "b"})

	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 500*time.Millisecond, in,
		func(options *metav1.ListOptions) { options.LabelSelector = "team=a" })
	informer := factory.ForResource(reports).Informer()
	events := &seen{}
	_, err := informer.AddEventHandlerWithResyncPeriod(events.handler(), time.Second)
	must(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	joins := create(t, of, "joins", map[string]string{"team": "a"})
	setPass(t, of, joins, 2)
	patch := []byte(`{"metadata":{"labels":{"team":"b"}}}`)
	eventually(t, "an update", func() bool { return events.has("update joins") })
	_, err = of.Patch(t.Context(), "joins", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	_, err = of.Patch(t.Context(), "other", types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"a"}}}`), metav1.PatchOptions{})
	must(t, err)
	for _, event := range []string{"add kept", "add joins", "delete joins", "add other", "resync kept"} {
		eventually(t, event, func() bool { return events.has(event) })
	}
	if events.has("update kept") {
		t.Error("an object that nobody changed was updated")
	}

	found, err := informer.GetIndexer().ByIndex(cache.NamespaceIndex, in)
	must(t, err)
	names := []string{}
	for _, object := range found {
		names = append(names, name(object))
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"kept", "other"}) {
		t.Errorf("%v in the index", names)
	}
}

// A metadata informer, such as the garbage collector's, sees names, labels, owners and versions, and
// nothing of what the reports say.
func TestMetadataInformer(t *testing.T) {
	in := namespace(t)
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	first := create(t, of, "first", map[string]string{"team": "a"})

	client, err := metadata.NewForConfig(config(t))
	must(t, err)
	factory := metadatainformer.NewFilteredSharedInformerFactory(client, 0, in, nil)
	informer := factory.ForResource(reports).Informer()
	events := &seen{}
	_, err = informer.AddEventHandler(events.handler())
	must(t, err)
	factory.Start(t.Context().Done())
	factory.WaitForCacheSync(t.Context().Done())

	setPass(t, of, first, 9)
	create(t, of, "second", nil)
	must(t, of.Delete(t.Context(), "second", metav1.DeleteOptions{}))
	for _, event := range []string{"add first", "update first", "add second", "delete second"} {
		eventually(t, event, func() bool { return events.has(event) })
	}
	found, exists, err := informer.GetStore().GetByKey(in + "/first")
	must(t, err)
	if !exists {
		t.Fatal("the report is not in the store")
	}
	partial := found.(*metav1.PartialObjectMetadata)
	if partial.UID != first.GetUID() || partial.Labels["team"] != "a" || partial.Generation != 2 {
		t.Errorf("%+v", partial)
	}
}

// The metadata client reads, lists, patches and deletes.
func TestMetadataClient(t *testing.T) {
	in := namespace(t)
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(in)
	made := create(t, of, "one", map[string]string{"team": "a"})
	create(t, of, "two", nil)
	asked := &journal{}
	all, err := metadata.NewForConfig(asked.of(config(t)))
	must(t, err)
	client := all.Resource(reports).Namespace(in)

	got, err := client.Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if got.UID != made.GetUID() || got.ResourceVersion != made.GetResourceVersion() {
		t.Errorf("%+v", got)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "team=a"})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].Name != "one" || list.ResourceVersion == "" {
		t.Errorf("%+v", list)
	}
	patch := []byte(`{"metadata":{"annotations":{"note":"x"}}}`)
	patched, err := client.Patch(t.Context(), "one", types.MergePatchType, patch, metav1.PatchOptions{})
	must(t, err)
	if patched.Annotations["note"] != "x" || patched.Generation != got.Generation {
		t.Errorf("%+v", patched)
	}
	must(t, client.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	eventually(t, "an empty namespace", func() bool {
		list, err := client.List(t.Context(), metav1.ListOptions{})
		must(t, err)
		return len(list.Items) == 0
	})
	for _, accept := range asked.accepts[:2] {
		if accept != "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" &&
			accept != "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json" {
			t.Errorf("the client asks for %q now: compare that, too", accept)
		}
	}
}
