package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
)

// Under lays another values file under this one, as Helm does with the files
// before the last: what this file says of the section singleuser goes before what
// that one says. Of the other only the section is read, wherever it stands, and not
// its profiles. Call it before Check; of several files, for the last first.
func (f *File) Under(name string, raw []byte) error {
	below, err := readBase(name, raw)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	for i := range f.Profiles {
		s := &f.Profiles[i].Spec
		own, err := object(s.Base)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		if s.Base, err = json.Marshal(lay(below, own)); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	return nil
}

// readBase reads the section singleuser of a file.
func readBase(name string, raw []byte) (map[string]any, error) {
	root, _, err := document(raw)
	if err != nil {
		return nil, err
	}
	r := newReader(name)
	for _, path := range sections {
		section, parent, err := r.descend(root, path)
		if err != nil {
			return nil, err
		}
		if section == nil {
			continue
		}
		r.file.Section = path
		base, err := r.base(section, parent)
		if err != nil {
			return nil, err
		}
		if values, err := object(base); err != nil || len(values) > 0 {
			return values, err
		}
	}
	return nil, errors.New("there is no section singleuser in it")
}

// lay lays over on top of under: mappings are merged, anything else replaces, and
// null is kept, so that it takes away what the chart says.
func lay(under, over map[string]any) map[string]any {
	out := make(map[string]any, len(under)+len(over))
	maps.Copy(out, under)
	for key, value := range over {
		a, both := out[key].(map[string]any)
		b, isMap := value.(map[string]any)
		if both && isMap {
			value = lay(a, b)
		}
		out[key] = value
	}
	return out
}
