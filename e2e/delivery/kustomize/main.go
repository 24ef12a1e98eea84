// Program kustomize prints what a kustomization makes: `kubectl kustomize FOLDER`, without the
// Kubernetes that kubectl brings along.
package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

func main() {
	if err := build(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kustomize:", err)
		os.Exit(1)
	}
}

// build prints the objects of the one folder that is named.
func build(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("name one folder, not %d", len(arguments))
	}
	kustomizer := krusty.MakeKustomizer(krusty.MakeDefaultOptions())
	objects, err := kustomizer.Run(filesys.MakeFsOnDisk(), arguments[0])
	if err != nil {
		return err
	}
	text, err := objects.AsYaml()
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(text)
	return err
}
