// Program bundle checks a bundle for OLM: `bundle -kubernetes VERSION [-accept WORDS]... FOLDER`. It runs the
// validators of `operator-sdk bundle validate --select-optional suite=operatorframework`, but for the one
// that pulls images. Warnings are failures, too, unless they have the words of one that is accepted.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	"github.com/operator-framework/operator-registry/pkg/lib/bundle"
	"github.com/sirupsen/logrus"
)

func main() {
	kubernetes := flag.String("kubernetes", "", "version of Kubernetes whose removed APIs are an error")
	var accept []string
	flag.Func("accept", "words of a warning that is accepted", func(words string) error {
		accept = append(accept, words)
		return nil
	})
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "bundle: name one folder")
		os.Exit(1)
	}
	findings, err := validate(flag.Arg(0), *kubernetes)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
	refused := 0
	for _, finding := range findings {
		accepted := func(words string) bool { return strings.Contains(finding, words) }
		if slices.ContainsFunc(accept, accepted) {
			fmt.Println("accepted:", finding)
			continue
		}
		fmt.Fprintln(os.Stderr, finding)
		refused++
	}
	if refused > 0 {
		os.Exit(1)
	}
}

// validate returns the errors and warnings of all validators. It fails where a bundle cannot be read.
func validate(folder, kubernetes string) ([]string, error) {
	logger := logrus.New()
	logger.SetOutput(io.Discard)
	registry := bundle.NewImageValidator(nil, logrus.NewEntry(logger))
	if err := registry.ValidateBundleFormat(folder); err != nil {
		return nil, fmt.Errorf("format: %w", err)
	}
	if err := registry.ValidateBundleContent(filepath.Join(folder, bundle.ManifestsDir)); err != nil {
		return nil, fmt.Errorf("content: %w", err)
	}
	read, err := manifests.GetBundleFromDir(folder)
	if err != nil {
		return nil, err
	}
	objects := read.ObjectsToValidate()
	for _, object := range read.Objects {
		objects = append(objects, object)
	}
	objects = append(objects, map[string]string{"k8s-version": kubernetes})
	validators := validation.DefaultBundleValidators.WithValidators(
		validation.OperatorHubV2Validator,
		validation.StandardCapabilitiesValidator,
		validation.StandardCategoriesValidator,
		validation.GoodPracticesValidator,
		validation.AlphaDeprecatedAPIsValidator,
		validation.ObjectValidator,
	)
	var findings []string
	for _, result := range validators.Validate(objects...) {
		for _, one := range result.Errors {
			findings = append(findings, one.Error())
		}
		for _, one := range result.Warnings {
			findings = append(findings, one.Error())
		}
	}
	return findings, nil
}
