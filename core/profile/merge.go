package profile

import (
	"fmt"
	"maps"
	"slices"
)

// Settings are the settings of one notebook by kubespawner's names, and where
// each was set last.
type Settings struct {
	Values map[string]any
	From   map[string]string // path, such as "kubespawner_override.mem_limit"
}

// Apply applies steps in their order. A mapping is merged into a mapping (see
// Update), and anything else replaces what was there; null clears it. Nothing of
// the steps is kept or changed. The error names the step and the key.
func (s *Settings) Apply(steps []Step) error {
	for _, step := range steps {
		for _, key := range slices.Sorted(maps.Keys(step.Override)) {
			value := step.Override[key]
			now, isMap := s.Values[key].(map[string]any)
			changes, merges := value.(map[string]any)
			switch {
			case isMap && merges:
				if err := Update(now, changes); err != nil {
					return &KeyError{Key: step.Path + "." + key, Err: err}
				}
			case value == nil:
				clearValue(s.Values, key, isMap)
			default:
				s.Values[key] = clone(value)
			}
			s.From[key] = step.Path + "." + key
		}
	}
	return nil
}

// clearValue clears a setting. A mapping stays one, so that what comes later is
// merged into it.
func clearValue(values map[string]any, key string, isMap bool) {
	if isMap {
		values[key] = map[string]any{}
		return
	}
	delete(values, key)
}

// KeyError is what is wrong with the value of one key.
type KeyError struct {
	Key string // path from the profile, such as "kubespawner_override.mem_limit"
	Err error
}

// Error is the key and the cause.
func (e *KeyError) Error() string { return e.Key + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *KeyError) Unwrap() error { return e.Err }

// Update changes target by changes: mappings are merged recursively, null removes
// a key, and anything else replaces what was there. Nothing of changes is kept. A
// mapping over what is there and is none is an error, as in kubespawner; target
// may then be changed in part.
func Update(target, changes map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(changes)) {
		switch value := changes[key].(type) {
		case nil:
			delete(target, key)
		case map[string]any:
			there, isMap := target[key].(map[string]any)
			if _, present := target[key]; present && !isMap {
				return fmt.Errorf("%s: a mapping cannot be merged into %s; JupyterHub fails here too", key, describe(target[key]))
			}
			if !isMap {
				there = map[string]any{}
				target[key] = there
			}
			if err := Update(there, value); err != nil {
				return fmt.Errorf("%s.%w", key, err)
			}
		default:
			target[key] = clone(value)
		}
	}
	return nil
}

// describe says what a value is.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	}
	return fmt.Sprintf("the value %v", v)
}

// clone copies mappings and lists, all the way down.
func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, each := range v {
			out[key] = clone(each)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, each := range v {
			out[i] = clone(each)
		}
		return out
	}
	return v
}

// sortedKeys returns the keys of all maps, sorted.
func sortedKeys(all ...map[string]string) []string {
	keys := map[string]bool{}
	for _, m := range all {
		for key := range m {
			keys[key] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
