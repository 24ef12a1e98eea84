package clients

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
)

// The pages of a list are of one moment, whatever is written between them.
func TestPager(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	made := []*unstructured.Unstructured{}
	for i := range 25 {
		made = append(made, create(t, of, fmt.Sprintf("report-%02d", i), nil))
	}
	pages, seen := 0, map[string]int64{}
	lists := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := of.List(ctx, options)
		if pages++; err == nil && pages == 2 {
			setPass(t, of, made[24], 99)
			must(t, of.Delete(ctx, "report-23", metav1.DeleteOptions{}))
			create(t, of, "report-99", nil)
		}
		return list, err
	})
	lists.PageSize, lists.PageBufferSize, lists.FullListIfExpired = 4, 0, false
	must(t, lists.EachListItem(t.Context(), metav1.ListOptions{}, func(object runtime.Object) error {
		report := object.(*unstructured.Unstructured)
		seen[report.GetName()] = passed(t, report)
		return nil
	}))
	if pages != 7 || len(seen) != 25 || seen["report-24"] != 1 || seen["report-23"] != 1 {
		t.Errorf("%d pages: %v", pages, seen)
	}
}

// A page says how many objects follow, and a token that nobody gave out is refused.
func TestPages(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	for i := range 3 {
		create(t, of, fmt.Sprintf("report-%d", i), nil)
	}
	page, err := of.List(t.Context(), metav1.ListOptions{Limit: 2})
	must(t, err)
	if remaining := page.GetRemainingItemCount(); len(page.Items) != 2 || remaining == nil || *remaining != 1 {
		t.Errorf("%d objects, then %v", len(page.Items), remaining)
	}
	rest, err := of.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: page.GetContinue()})
	must(t, err)
	if len(rest.Items) != 1 || rest.GetContinue() != "" || rest.GetResourceVersion() != page.GetResourceVersion() {
		t.Errorf("%d objects at %s, the page before was at %s", len(rest.Items), rest.GetResourceVersion(), page.GetResourceVersion())
	}
	_, err = of.List(t.Context(), metav1.ListOptions{Limit: 2, Continue: "x"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("%v for a token of nobody", err)
	}
}

// Selectors of labels and fields choose.
func TestSelectors(t *testing.T) {
	of := dynamicClient(t, config(t)).Resource(reports).Namespace(namespace(t))
	create(t, of, "one", map[string]string{"team": "a", "tier": "x"})
	create(t, of, "two", map[string]string{"team": "b"})
	create(t, of, "three", nil)
	for selector, wanted := range map[string]int{
		"team=a": 1, "team!=a": 2, "team in (a,b)": 2, "!team": 1, "team,tier": 1, "team notin (b),team": 1,
	} {
		list, err := of.List(t.Context(), metav1.ListOptions{LabelSelector: selector})
		must(t, err)
		if len(list.Items) != wanted {
			t.Errorf("%q chooses %d, wanted %d", selector, len(list.Items), wanted)
		}
	}
	list, err := of.List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=two"})
	must(t, err)
	if len(list.Items) != 1 || list.Items[0].GetName() != "two" {
		t.Errorf("%v", list.Items)
	}
	_, err = of.List(t.Context(), metav1.ListOptions{FieldSelector: "summary.pass=1"})
	if !apierrors.IsBadRequest(err) {
		t.Errorf("%v for a field that cannot be selected by", err)
	}
	must(t, of.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "team"}))
	left, err := of.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(left.Items) != 1 || left.Items[0].GetName() != "three" {
		t.Errorf("%v is left", left.Items)
	}
}
