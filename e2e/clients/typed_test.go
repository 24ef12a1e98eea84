package clients

import (
	"encoding/json"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/gentype"
	"k8s.io/client-go/rest"
)

// PolicyReport is as much of a report as the typed client needs.
type PolicyReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Summary           Summary  `json:"summary,omitempty"`
	Results           []Result `json:"results,omitempty"`
}

// Summary counts results.
type Summary struct {
	Pass int `json:"pass,omitempty"`
	Fail int `json:"fail,omitempty"`
}

// Result is a verdict.
type Result struct {
	Policy string `json:"policy"`
	Result string `json:"result,omitempty"`
}

// PolicyReportList is a list of them.
type PolicyReportList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []PolicyReport `json:"items"`
}

// PolicyReportApply is what a manager wants of a report.
type PolicyReportApply struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   ApplyMeta       `json:"metadata"`
	Summary    *map[string]int `json:"summary,omitempty"`
}

// ApplyMeta names the object.
type ApplyMeta struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
}

// GetName implements what the client asks of an apply configuration.
func (a *PolicyReportApply) GetName() *string { return &a.Metadata.Name }

func copied[T any](object *T) *T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	made := new(T)
	if err := json.Unmarshal(text, made); err != nil {
		panic(err)
	}
	return made
}

// DeepCopyObject implements runtime.Object.
func (r *PolicyReport) DeepCopyObject() runtime.Object { return copied(r) }

// DeepCopyObject implements runtime.Object.
func (l *PolicyReportList) DeepCopyObject() runtime.Object { return copied(l) }

type typedClient = gentype.ClientWithListAndApply[*PolicyReport, *PolicyReportList, *PolicyReportApply]

// typed is a client as client-gen would generate it.
func typed(t *testing.T, namespace string) *typedClient {
	t.Helper()
	scheme := runtime.NewScheme()
	scheme.AddKnownTypeWithName(groupVersion.WithKind("PolicyReport"), &PolicyReport{})
	scheme.AddKnownTypeWithName(groupVersion.WithKind("PolicyReportList"), &PolicyReportList{})
	metav1.AddToGroupVersion(scheme, groupVersion)
	config := config(t)
	config.APIPath = "/apis"
	config.GroupVersion = &groupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	client, err := rest.RESTClientFor(config)
	must(t, err)
	return gentype.NewClientWithListAndApply[*PolicyReport, *PolicyReportList, *PolicyReportApply](
		"policyreports", client, runtime.NewParameterCodec(scheme), namespace,
		func() *PolicyReport { return &PolicyReport{} },
		func() *PolicyReportList { return &PolicyReportList{} },
	)
}

// A generated client creates, reads, updates, patches, applies, lists, watches and deletes.
func TestTypedClient(t *testing.T) {
	client := typed(t, namespace(t))
	report := &PolicyReport{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Summary:    Summary{Pass: 1},
		Results:    []Result{{Policy: "p", Result: "pass"}},
	}
	made, err := client.Create(t.Context(), report, metav1.CreateOptions{})
	must(t, err)
	watcher, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: made.ResourceVersion})
	must(t, err)
	defer watcher.Stop()

	made.Summary.Fail = 2
	updated, err := client.Update(t.Context(), made, metav1.UpdateOptions{})
	must(t, err)
	event := next(t, watcher.ResultChan())
	if seen, typed := event.Object.(*PolicyReport); !typed || seen.Summary.Fail != 2 || seen.ResourceVersion != updated.ResourceVersion {
		t.Errorf("%+v", event)
	}
	patched, err := client.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"summary":{"fail":3}}`), metav1.PatchOptions{})
	must(t, err)
	if patched.Summary != (Summary{Pass: 1, Fail: 3}) {
		t.Errorf("%+v", patched.Summary)
	}
	wanted := &PolicyReportApply{Kind: "PolicyReport", APIVersion: groupVersion.String(),
		Metadata: ApplyMeta{Name: "one", Labels: map[string]string{"team": "a"}}, Summary: &map[string]int{"fail": 4}}
	_, err = client.Apply(t.Context(), wanted, metav1.ApplyOptions{FieldManager: "typed"})
	if !apierrors.IsConflict(err) {
		t.Errorf("%v in place of a conflict", err)
	}
	applied, err := client.Apply(t.Context(), wanted, metav1.ApplyOptions{FieldManager: "typed", Force: true})
	must(t, err)
	if applied.Summary.Fail != 4 || applied.Labels["team"] != "a" || len(applied.Results) != 1 {
		t.Errorf("%+v", applied)
	}
	list, err := client.List(t.Context(), metav1.ListOptions{LabelSelector: "team=a"})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].UID != made.UID {
		t.Errorf("%+v", list)
	}
	must(t, client.Delete(t.Context(), "one", metav1.DeleteOptions{}))
}
