package clients

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
	openapiproto "k8s.io/kube-openapi/pkg/util/proto"
	"sigs.k8s.io/yaml"
)

const (
	jsonForm = "application/json"
	kind     = "io.wgpolicyk8s.v1alpha2.PolicyReport"
)

// The document that clients validate and explain with is there in both forms, and client-go finds it.
func TestOpenAPI(t *testing.T) {
	client, err := discovery.NewDiscoveryClientForConfig(config(t))
	must(t, err)
	var found openapi.GroupVersion
	eventually(t, "the group has a document", func() bool {
		paths, err := client.OpenAPIV3().Paths()
		must(t, err)
		found = paths["apis/"+groupVersion.String()]
		return found != nil
	})
	for _, form := range []string{jsonForm, openapi.ContentTypeOpenAPIV3PB} {
		text, err := found.Schema(form)
		must(t, err)
		if len(text) < 1000 {
			t.Errorf("%d bytes of %s", len(text), form)
		}
	}
}

// The document in protobuf is what Go makes of the one in JSON, and kubectl's reader of it knows the
// kind.
func TestOpenAPIInProtobuf(t *testing.T) {
	given := &openapi_v3.Document{}
	must(t, proto.Unmarshal(document(t, openapi.ContentTypeOpenAPIV3PB), given))
	models, err := openapiproto.NewOpenAPIV3Data(given)
	must(t, err)
	if models.LookupModel(kind) == nil {
		t.Errorf("%s is not among %v", kind, models.ListModels())
	}
	wanted, err := openapi_v3.ParseDocument(document(t, jsonForm))
	must(t, err)
	plain(t, given.ProtoReflect())
	plain(t, wanted.ProtoReflect())
	if !proto.Equal(given, wanted) {
		t.Error(difference(given, wanted))
	}
}

// document gets the group's document from the server that is meant: as long as the CRDs are there,
// the kube-apiserver has documents of both, and takes one or the other. SERVED_BY names a header
// that the right one sends.
func document(t *testing.T, form string) []byte {
	t.Helper()
	settings := config(t)
	client, err := rest.HTTPClientFor(settings)
	must(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		settings.Host+"/openapi/v3/apis/"+groupVersion.String(), nil)
	must(t, err)
	request.Header.Set("Accept", form)
	var body []byte
	eventually(t, "a document in "+form, func() bool {
		answer, err := client.Do(request)
		must(t, err)
		defer answer.Body.Close()
		body, err = io.ReadAll(answer.Body)
		must(t, err)
		header := os.Getenv("SERVED_BY")
		return answer.StatusCode == http.StatusOK && (header == "" || answer.Header.Get(header) != "")
	})
	return body
}

// plain writes all values of any type, which are texts of YAML, in one way.
func plain(t *testing.T, message protoreflect.Message) {
	if found, ok := message.Interface().(*openapi_v3.Any); ok {
		text, err := yaml.YAMLToJSON([]byte(found.Yaml))
		must(t, err)
		found.Yaml = string(text)
		return
	}
	message.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		switch {
		case field.Message() == nil:
		case field.IsList():
			for i := range value.List().Len() {
				plain(t, value.List().Get(i).Message())
			}
		default:
			plain(t, value.Message())
		}
		return true
	})
}

// difference shows where two messages differ first.
func difference(given, wanted proto.Message) string {
	lines := func(message proto.Message) []string {
		return strings.Split(prototext.MarshalOptions{Multiline: true}.Format(message), "\n")
	}
	left, right := lines(given), lines(wanted)
	for i, line := range left {
		if i >= len(right) || right[i] != line {
			from := max(0, i-15)
			return "given:\n" + strings.Join(left[from:i+1], "\n") +
				"\nwanted:\n" + strings.Join(right[from:min(i+1, len(right))], "\n")
		}
	}
	return "the end is missing"
}
