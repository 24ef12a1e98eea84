// Package clients uses report APIs as programs in Go do: with client-go, through the kube-apiserver
// that KUBECONFIG names. The tests know nothing of who serves the APIs; e2e/tests/clusters/client_go.rs runs
// them first with the CRDs behind, then with the server.
package clients

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// patience is the longest wait for what must come.
const patience = 30 * time.Second

var (
	groupVersion = schema.GroupVersion{Group: "wgpolicyk8s.io", Version: "v1alpha2"}
	reports      = groupVersion.WithResource("policyreports")
)

// config is that of a client without a limit of its own.
func config(t *testing.T) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	must(t, err)
	config.QPS = -1
	config.UserAgent = "client-go-test"
	return config
}

func dynamicClient(t *testing.T, config *rest.Config) dynamic.Interface {
	t.Helper()
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return client
}

// namespace makes a namespace for this test and gives its name.
func namespace(t *testing.T) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config(t))
	must(t, err)
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "client-go-"}}
	made, err := client.CoreV1().Namespaces().Create(context.Background(), object, metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		err := client.CoreV1().Namespaces().Delete(context.Background(), made.Name, metav1.DeleteOptions{})
		must(t, err)
	})
	return made.Name
}

// report is a small valid report.
func report(name string, pass int64, labels map[string]string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{
		"summary": map[string]any{"pass": pass},
		"results": []any{map[string]any{"policy": "p", "result": "pass"}},
	}}
	object.SetAPIVersion(groupVersion.String())
	object.SetKind("PolicyReport")
	object.SetName(name)
	object.SetLabels(labels)
	return object
}

// create makes a report and gives what was answered.
func create(t *testing.T, client dynamic.ResourceInterface, name string, labels map[string]string) *unstructured.Unstructured {
	t.Helper()
	made, err := client.Create(t.Context(), report(name, 1, labels), metav1.CreateOptions{})
	must(t, err)
	return made
}

// setPass updates the report's count of passed rules and gives what was answered.
func setPass(t *testing.T, client dynamic.ResourceInterface, object *unstructured.Unstructured, pass int64) *unstructured.Unstructured {
	t.Helper()
	object = object.DeepCopy()
	must(t, unstructured.SetNestedField(object.Object, pass, "summary", "pass"))
	updated, err := client.Update(t.Context(), object, metav1.UpdateOptions{})
	must(t, err)
	return updated
}

func passed(t *testing.T, object *unstructured.Unstructured) int64 {
	t.Helper()
	pass, found, err := unstructured.NestedInt64(object.Object, "summary", "pass")
	must(t, err)
	if !found {
		t.Fatalf("no summary.pass in %v", object.Object)
	}
	return pass
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// newer says whether version a is above b; both are numbers, as KEP-5504 has it for custom resources.
func newer(t *testing.T, a, b string) bool {
	t.Helper()
	left, err := strconv.ParseUint(a, 10, 64)
	must(t, err)
	right, err := strconv.ParseUint(b, 10, 64)
	must(t, err)
	return left > right
}

// journal notes what a client asks for, and can refuse it.
type journal struct {
	mutex   sync.Mutex
	uris    []string
	accepts []string
	inner   http.RoundTripper
}

// of has the client of this configuration write to the journal.
func (j *journal) of(config *rest.Config) *rest.Config {
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		j.inner = inner
		return j
	})
	return config
}

// RoundTrip implements http.RoundTripper.
func (j *journal) RoundTrip(request *http.Request) (*http.Response, error) {
	j.mutex.Lock()
	j.uris = append(j.uris, request.Method+" "+request.URL.RequestURI())
	j.accepts = append(j.accepts, request.Header.Get("Accept"))
	j.mutex.Unlock()
	return j.inner.RoundTrip(request)
}

// count is the number of requests whose method and URI contain all parts.
func (j *journal) count(parts ...string) int {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	count := 0
	for _, uri := range j.uris {
		matches := true
		for _, part := range parts {
			matches = matches && strings.Contains(uri, part)
		}
		if matches {
			count++
		}
	}
	return count
}
