package clients

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
)

// Discovery, aggregated and not, names the kinds; a REST mapper finds them by their short names.
func TestDiscovery(t *testing.T) {
	for name, legacy := range map[string]bool{"aggregated": false, "legacy": true} {
		t.Run(name, func(t *testing.T) {
			client, err := discovery.NewDiscoveryClientForConfig(config(t))
			must(t, err)
			client.UseLegacyDiscovery = legacy
			_, lists, err := client.ServerGroupsAndResources()
			must(t, err)
			found := discovery.FilteredBy(discovery.ResourcePredicateFunc(func(group string, _ *metav1.APIResource) bool {
				return group == groupVersion.String()
			}), lists)
			if len(found) != 1 {
				t.Fatalf("%v", found)
			}
			names := []string{}
			for _, resource := range found[0].APIResources {
				names = append(names, resource.Name)
				for _, verb := range []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"} {
					if !slices.Contains(resource.Verbs, verb) {
						t.Errorf("%s without %s", resource.Name, verb)
					}
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{"clusterpolicyreports", "policyreports"}) {
				t.Errorf("%v", names)
			}
			cached := memory.NewMemCacheClient(client)
			mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
			kind, err := mapper.KindFor(schema.GroupVersionResource{Resource: "cpolr"})
			must(t, err)
			if kind != groupVersion.WithKind("ClusterPolicyReport") {
				t.Errorf("%s", kind)
			}
		})
	}
}
