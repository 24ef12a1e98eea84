package clients

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// What the dynamic client writes comes back, and what was changed meanwhile is a conflict.
func TestDynamicClient(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	made := create(t, of, "one", map[string]string{"team": "a"})
	created := made.GetCreationTimestamp()
	if made.GetUID() == "" || made.GetGeneration() != 1 || created.IsZero() {
		t.Errorf("%v", made.Object)
	}
	got, err := of.Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if got.GetResourceVersion() != made.GetResourceVersion() {
		t.Errorf("%s, made as %s", got.GetResourceVersion(), made.GetResourceVersion())
	}
	updated := setPass(t, of, got, 3)
	if updated.GetGeneration() != 2 || !newer(t, updated.GetResourceVersion(), made.GetResourceVersion()) {
		t.Errorf("%v", updated.Object)
	}
	same := setPass(t, of, updated, 3)
	if same.GetResourceVersion() != updated.GetResourceVersion() {
		t.Error("an update that changes nothing made a version")
	}
	_, err = of.Update(t.Context(), made, metav1.UpdateOptions{})
	if !apierrors.IsConflict(err) {
		t.Errorf("%v in place of a conflict", err)
	}
	_, err = of.Create(t.Context(), report("one", 1, nil), metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("%v where it exists already", err)
	}
	_, err = of.Get(t.Context(), "none", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v where there is none", err)
	}
	_, err = of.UpdateStatus(t.Context(), updated, metav1.UpdateOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v for a status that the kind does not have", err)
	}
	generated := report("", 1, nil)
	generated.SetGenerateName("gen-")
	generated, err = of.Create(t.Context(), generated, metav1.CreateOptions{})
	must(t, err)
	if !strings.HasPrefix(generated.GetName(), "gen-") || len(generated.GetName()) != len("gen-")+5 {
		t.Errorf("%s was generated", generated.GetName())
	}
}

// What is refused names the fields, as client-go's helpers read them.
func TestRefusals(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	wrong := report("wrong", 1, nil)
	must(t, unstructured.SetNestedSlice(wrong.Object, []any{map[string]any{"policy": "p", "result": "maybe"}}, "results"))
	_, err := of.Create(t.Context(), wrong, metav1.CreateOptions{})
	causes, found := apierrors.StatusCause(err, metav1.CauseTypeFieldValueNotSupported)
	if !apierrors.IsInvalid(err) || !found || causes.Field != "results[0].result" {
		t.Errorf("%v (%+v)", err, causes)
	}
	unknown := report("unknown", 1, nil)
	unknown.Object["severity"] = "high"
	_, err = of.Create(t.Context(), unknown, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
	if !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), `unknown field "severity"`) {
		t.Errorf("%v for a field that is unknown", err)
	}
	made := create(t, of, "one", nil)
	_, err = of.Patch(t.Context(), "one", types.StrategicMergePatchType, []byte(`{}`), metav1.PatchOptions{})
	if !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("%v for a strategic merge patch", err)
	}
	other := types.UID("00000000-0000-4000-8000-000000000000")
	err = of.Delete(t.Context(), "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &other}})
	if !apierrors.IsConflict(err) {
		t.Errorf("%v for a deletion of another object", err)
	}
	version := made.GetResourceVersion()
	must(t, of.Delete(t.Context(), "one", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}}))
}

// Patches, as clients make them.
func TestPatches(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	create(t, of, "one", nil)
	merged, err := of.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"summary":{"pass":4}}`), metav1.PatchOptions{})
	must(t, err)
	if passed(t, merged) != 4 {
		t.Errorf("%v", merged.Object)
	}
	patch := `[{"op":"test","path":"/summary/pass","value":4},{"op":"replace","path":"/summary/pass","value":5}]`
	patched, err := of.Patch(t.Context(), "one", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	must(t, err)
	if passed(t, patched) != 5 {
		t.Errorf("%v", patched.Object)
	}
	_, err = of.Patch(t.Context(), "one", types.JSONPatchType, []byte(patch), metav1.PatchOptions{})
	if !apierrors.IsInvalid(err) {
		t.Errorf("%v for a test that fails", err)
	}
	dry, err := of.Patch(t.Context(), "one", types.MergePatchType, []byte(`{"summary":{"pass":6}}`),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	must(t, err)
	got, err := of.Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if passed(t, dry) != 6 || passed(t, got) != 5 {
		t.Errorf("a dry run answered %d and left %d", passed(t, dry), passed(t, got))
	}
}

// Two managers apply: the second one meets a conflict, and forces it.
func TestApply(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	applied, err := of.Apply(t.Context(), "one", report("one", 1, nil), metav1.ApplyOptions{FieldManager: "first"})
	must(t, err)
	again, err := of.Apply(t.Context(), "one", report("one", 1, nil), metav1.ApplyOptions{FieldManager: "first"})
	must(t, err)
	if again.GetResourceVersion() != applied.GetResourceVersion() {
		t.Error("an apply of the same made a version")
	}
	_, err = of.Apply(t.Context(), "one", report("one", 2, nil), metav1.ApplyOptions{FieldManager: "second"})
	cause, found := apierrors.StatusCause(err, metav1.CauseTypeFieldManagerConflict)
	if !apierrors.IsConflict(err) || !found || cause.Field != ".summary.pass" {
		t.Errorf("%v (%+v)", err, cause)
	}
	forced, err := of.Apply(t.Context(), "one", report("one", 2, nil), metav1.ApplyOptions{FieldManager: "second", Force: true})
	must(t, err)
	owners := map[string]bool{}
	for _, entry := range forced.GetManagedFields() {
		owners[entry.Manager] = strings.Contains(entry.FieldsV1.String(), "f:pass")
	}
	if passed(t, forced) != 2 || owners["first"] || !owners["second"] {
		t.Errorf("%d, owned by %v", passed(t, forced), owners)
	}
}

// A finalizer keeps an object, marked, until it is taken away.
func TestFinalizers(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	object := report("one", 1, nil)
	object.SetFinalizers([]string{"example.com/hold"})
	_, err := of.Create(t.Context(), object, metav1.CreateOptions{})
	must(t, err)
	must(t, of.Delete(t.Context(), "one", metav1.DeleteOptions{}))
	held, err := of.Get(t.Context(), "one", metav1.GetOptions{})
	must(t, err)
	if held.GetDeletionTimestamp() == nil {
		t.Error("no deletionTimestamp")
	}
	held.SetFinalizers(nil)
	_, err = of.Update(t.Context(), held, metav1.UpdateOptions{})
	must(t, err)
	_, err = of.Get(t.Context(), "one", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("%v after the last finalizer", err)
	}
}
