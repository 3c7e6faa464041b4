package can

import (
	"fmt"

	"berth.dev/berth/cli/client"
)

// read reads the objects of the files that are named, in their order.
func (c *command) read() ([]*client.Object, error) {
	paths, err := client.Manifests(c.files)
	if err != nil {
		return nil, err
	}
	var out []*client.Object
	for _, path := range paths {
		list, err := client.ReadFile(c.Options, path, client.Objects)
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
