package can

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/internal/strictyaml"
)

// object is an object of a file.
type object struct {
	*unstructured.Unstructured
	file string
	line int // from 1
}

// read reads the objects of the files that are named, in their order.
func (c *command) read() ([]*object, error) {
	paths, err := client.Manifests(c.files)
	if err != nil {
		return nil, err
	}
	var out []*object
	for _, path := range paths {
		list, err := client.ReadFile(c.Options, path, objectsOf)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s has no object: one has a kind and an apiVersion", paths[0])
	}
	return out, nil
}

// objectsOf reads the objects of a file of YAML or JSON.
func objectsOf(name string, r io.Reader) ([]*object, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var out []*object
	for _, text := range strictyaml.Split(data) {
		root, parseErr := strictyaml.Parse(name, text)
		if parseErr != nil {
			return nil, parseErr
		}
		if root == nil {
			continue
		}
		var plain any
		if err := root.Decode(&plain); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, root.Line, err)
		}
		raw, err := json.Marshal(plain)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: not an object of Kubernetes: %w", name, root.Line, err)
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(bytes.TrimSpace(raw)); err != nil {
			return nil, fmt.Errorf("%s:%d: not an object of Kubernetes: %w", name, root.Line, err)
		}
		if !u.IsList() {
			out = append(out, &object{u, name, root.Line})
			continue
		}
		err = u.EachListItem(func(o runtime.Object) error {
			out = append(out, &object{o.(*unstructured.Unstructured), name, root.Line})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, root.Line, err)
		}
	}
	return out, nil
}
