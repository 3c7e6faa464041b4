package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"berth.dev/berth/internal/strictyaml"
)

// Object is an object of a file.
type Object struct {
	*unstructured.Unstructured
	File string
	Line int // of its document, from 1
}

// Objects reads the objects of a file of YAML or JSON, also those of lists, in their order. An error names the file and
// the line.
func Objects(name string, r io.Reader) ([]*Object, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	var out []*Object
	for _, text := range strictyaml.Split(data) {
		root, parseErr := strictyaml.Parse(name, text)
		if parseErr != nil {
			return nil, parseErr
		}
		if root == nil {
			continue
		}
		raw := bytes.TrimSpace(text)
		if !json.Valid(raw) {
			if raw, err = yaml.YAMLToJSON(text); err != nil { // as kubectl does: yes and on are true
				return nil, fmt.Errorf("%s:%d: not an object of Kubernetes: %w", name, root.Line, err)
			}
		}
		u := &unstructured.Unstructured{}
		if err := u.UnmarshalJSON(raw); err != nil {
			return nil, fmt.Errorf("%s:%d: not an object of Kubernetes: %w", name, root.Line, err)
		}
		if !u.IsList() {
			out = append(out, &Object{u, name, root.Line})
			continue
		}
		err = u.EachListItem(func(o runtime.Object) error {
			out = append(out, &Object{o.(*unstructured.Unstructured), name, root.Line})
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, root.Line, err)
		}
	}
	return out, nil
}
