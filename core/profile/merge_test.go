package profile_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/profile"
)

// rows: JH-20 JH-21 JH-23
func TestApply(t *testing.T) {
	tests := []struct {
		name      string
		base      object
		overrides []object
		want      object
		err       string
	}{
		{
			name: "a mapping is merged", base: object{"environment": object{"A": "1", "B": "2"}},
			overrides: []object{{"environment": object{"B": "3", "C": "4"}}},
			want:      object{"environment": object{"A": "1", "B": "3", "C": "4"}},
		},
		{
			name: "null removes a key of a mapping, at any depth", base: object{"a": object{"x": object{"y": "1", "z": "2"}, "w": "3"}},
			overrides: []object{{"a": object{"x": object{"y": nil}, "w": nil}}},
			want:      object{"a": object{"x": object{"z": "2"}}},
		},
		{
			name: "null clears a scalar, and a later one sets it again", base: object{"mem_limit": "1G", "cpu_limit": int64(2)},
			overrides: []object{{"mem_limit": nil, "cpu_limit": nil}, {"cpu_limit": int64(4)}},
			want:      object{"cpu_limit": int64(4)},
		},
		{
			name: "null empties a mapping, and a later one is merged into that", base: object{"node_selector": object{"a": "1"}},
			overrides: []object{{"node_selector": nil}, {"node_selector": object{"b": "2", "c": nil}}},
			want:      object{"node_selector": object{"b": "2"}},
		},
		{
			name: "a list is replaced as a whole", base: object{"tolerations": []any{"a", "b"}},
			overrides: []object{{"tolerations": []any{"c"}}}, want: object{"tolerations": []any{"c"}},
		},
		{
			name: "a list replaces a mapping and the other way round", base: object{"volumes": object{"h": "1"}, "tolerations": []any{"a"}},
			overrides: []object{{"volumes": []any{"x"}, "tolerations": object{"k": "1"}}},
			want:      object{"volumes": []any{"x"}, "tolerations": object{"k": "1"}},
		},
		{
			name: "a mapping over nothing is taken over, nulls too", base: object{},
			overrides: []object{{"pod_security_context": object{"fsGroup": nil}}}, want: object{"pod_security_context": object{"fsGroup": nil}},
		},
		{
			name: "a mapping within a mapping over nothing has no nulls", base: object{"e": object{}},
			overrides: []object{{"e": object{"x": object{"y": nil, "z": "1"}}}}, want: object{"e": object{"x": object{"z": "1"}}},
		},
		{
			name: "a mapping over a text fails, as in JupyterHub", base: object{"environment": object{"A": "1"}},
			overrides: []object{{"environment": object{"A": object{"valueFrom": object{}}}}},
			err:       `step0.environment: A: a mapping cannot be merged into the text "1"`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := profile.Settings{Values: tt.base, From: map[string]string{}}
			var steps []profile.Step
			for i, o := range tt.overrides {
				steps = append(steps, profile.Step{Path: fmt.Sprint("step", i), Override: o})
			}
			before := fmt.Sprint(tt.overrides)
			err := s.Apply(steps)
			if tt.err != "" {
				var key *profile.KeyError
				if !errors.As(err, &key) || !strings.HasPrefix(err.Error(), tt.err) {
					t.Fatalf("error %v, want %s", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff(tt.want, s.Values); err != nil || diff != "" {
				t.Errorf("error %v; values (-want +got):\n%s", err, diff)
			}
			if after := fmt.Sprint(tt.overrides); after != before {
				t.Errorf("the overrides were changed from %s to %s", before, after)
			}
		})
	}
}

func TestApplyRemembersWhoSetWhatLast(t *testing.T) {
	s := profile.Settings{Values: object{}, From: map[string]string{"image": "singleuser.image.name"}}
	if err := s.Apply([]profile.Step{{Path: "a", Override: object{"image": "1", "cpu_limit": nil}}, {Path: "b", Override: object{"image": "2"}}}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"image": "b.image", "cpu_limit": "a.cpu_limit"}, s.From); diff != "" {
		t.Errorf("From (-want +got):\n%s", diff)
	}
}

// slowUpdate is Update by the words of its rule: the leaves of the two, as paths,
// put together in one list and read back. ok is false where a mapping stands over
// what is none.
func slowUpdate(target, changes object) (out object, ok bool) {
	type leaf struct {
		path  []string
		value any
		open  bool // a mapping, which need have nothing in it
	}
	var leaves []leaf
	var collect func(path []string, m object)
	collect = func(path []string, m object) {
		for k, v := range m {
			at := append(append([]string{}, path...), k)
			if sub, isMap := v.(map[string]any); isMap {
				leaves = append(leaves, leaf{at, nil, true})
				collect(at, sub)
				continue
			}
			leaves = append(leaves, leaf{at, v, false})
		}
	}
	collect(nil, target)
	first := len(leaves)
	collect(nil, changes)
	out = object{}
	for i, l := range leaves {
		at := out
		for _, k := range l.path[:len(l.path)-1] {
			next, isMap := at[k].(map[string]any)
			if !isMap {
				return nil, false
			}
			at = next
		}
		last := l.path[len(l.path)-1]
		there, present := at[last]
		_, thereMap := there.(map[string]any)
		switch {
		case l.open && present && !thereMap:
			return nil, false
		case l.open && !present:
			at[last] = object{}
		case l.open:
		case l.value == nil && i >= first:
			delete(at, last)
		default:
			at[last] = l.value
		}
	}
	return out, true
}

// valueOf makes a value of a few bytes: mappings of the keys a to c, texts, lists
// and nulls.
func valueOf(data *[]byte, depth int) any {
	if len(*data) == 0 {
		return nil
	}
	b := (*data)[0]
	*data = (*data)[1:]
	switch {
	case b%5 < 2 && depth < 4:
		m := object{}
		for _, key := range []string{"a", "b", "c"}[:b/5%4] {
			m[key] = valueOf(data, depth+1)
		}
		return m
	case b%5 == 2:
		return []any{fmt.Sprint(b / 5)}
	case b%5 == 3:
		return fmt.Sprint(b / 5)
	}
	return nil
}

func FuzzUpdate(f *testing.F) {
	f.Add([]byte{15, 3, 8, 13}, []byte{10, 4, 15, 3})
	f.Add([]byte{15, 11, 8, 2, 4}, []byte{15, 16, 4, 4})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		x, y := a, b
		target, ok1 := valueOf(&x, 0).(map[string]any)
		changes, ok2 := valueOf(&y, 0).(map[string]any)
		if !ok1 || !ok2 {
			return
		}
		want, fits := slowUpdate(target, changes)
		before := fmt.Sprint(changes)
		err := profile.Update(target, changes)
		if fits != (err == nil) {
			t.Fatalf("Update: error %v, but the slow way says %t", err, fits)
		}
		if diff := cmp.Diff(want, target); fits && diff != "" {
			t.Fatalf("Update (-want +got):\n%s", diff)
		}
		if fmt.Sprint(changes) != before {
			t.Fatal("Update changed its second argument")
		}
	})
}
