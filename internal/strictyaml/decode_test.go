package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"

	"berth.dev/berth/internal/strictyaml"
)

type meta struct {
	Name string `json:"name"`
}

type group struct {
	meta
	Count    *int              `json:"count,omitempty"`
	Labels   map[string]string `json:"labels"`
	Price    float64           `json:"price"`
	Spot     bool              `json:"spot"`
	Pods     uint8             `json:"pods"`
	After    time.Duration     `json:"after"`
	Profiles [][]string        `json:"profiles"`
	Any      any               `json:"any"`
	Raw      yaml.Node         `json:"raw"`
	Hidden   string
	Skipped  string `json:"-"`
}

type file struct {
	Nodes []group          `json:"nodes"`
	By    map[string]group `json:"by"`
}

func TestDecode(t *testing.T) {
	const text = `
nodes:
- name: a
  count: 3
  labels: {nvidia.com/gpu: "8", x: y}
  price: 2
  spot: on
  pods: 250
  after: 90s
  profiles: [[1g.5gb], []]
  any: {a: [1, 2.5, true]}
- &b
  name: b
- *b
by:
  c: {name: c, count: null}
`
	three := 3
	want := file{
		Nodes: []group{
			{
				meta: meta{"a"}, Count: &three, Labels: map[string]string{"nvidia.com/gpu": "8", "x": "y"}, Price: 2, Spot: true,
				Pods: 250, After: 90 * time.Second, Profiles: [][]string{{"1g.5gb"}, {}}, Any: map[string]any{"a": []any{1, 2.5, true}},
			},
			{meta: meta{"b"}},
			{meta: meta{"b"}},
		},
		By: map[string]group{"c": {meta: meta{"c"}}},
	}
	var got file
	if err := strictyaml.Decode("f.yaml", []byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(group{}), cmpopts.IgnoreFields(group{}, "Raw")); diff != "" {
		t.Errorf("Decode (-want +got):\n%s", diff)
	}
}

func TestDecodeKeepsDefaultsAndRawNodes(t *testing.T) {
	got := struct {
		Port int       `json:"port"`
		Host string    `json:"host"`
		Raw  yaml.Node `json:"raw"`
	}{Port: 80, Host: "localhost"}
	if err := strictyaml.Decode("f", []byte("host: example\nport:\nraw:\n  version: v2\n"), &got); err != nil || got.Port != 80 || got.Host != "example" {
		t.Errorf("Decode = %+v, %v", got, err)
	}
	// Lines are those of the whole file.
	var version struct {
		Version int `json:"version"`
	}
	err := strictyaml.NewDecoder("f").Decode(&got.Raw, "raw", &version)
	if want := `f:4: raw.version: must be a whole number, found "v2"`; fmt.Sprint(err) != want {
		t.Errorf("Decode of a part: %v, want %s", err, want)
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"an unknown field, deep down", "nodes:\n- name: a\n- nam: b", `f:3: nodes[1].nam: unknown field; did you mean "name"?`},
		{"an unknown field in a map", "by:\n  a.b/c:\n    naem: x", `f:3: by["a.b/c"].naem: unknown field; did you mean "name"?`},
		{"a field without a tag", "nodes: [{Hidden: x}]", "f:1: nodes[0].Hidden: unknown field; known fields are name, count, labels, price, spot, pods, after, profiles, any, raw"},
		{"a field given twice", "nodes:\n- name: a\n  name: b", "f:3: nodes[0].name: given twice, first at line 2; keep one"},
		{"a number for text", "nodes: [{name: 1.10}]", `f:1: nodes[0].name: must be text, found 1.10; write it in quotes: "1.10"`},
		{"a list for text", "nodes: [{name: [a]}]", "f:1: nodes[0].name: must be text, found a list"},
		{"text for a number", "nodes: [{count: many}]", `f:1: nodes[0].count: must be a whole number, found "many"`},
		{"a fraction for a whole number", "nodes: [{count: 1.5}]", "f:1: nodes[0].count: must be a whole number, found 1.5"},
		{"a number too large", "nodes: [{pods: 256}]", "f:1: nodes[0].pods: must be a whole number, 0 or more, found 256"},
		{"a negative number", "nodes: [{pods: -1}]", "f:1: nodes[0].pods: must be a whole number, 0 or more, found -1"},
		{"text for a price", "nodes: [{price: free}]", `f:1: nodes[0].price: must be a number, found "free"`},
		{"quoted true", `nodes: [{spot: "true"}]`, `f:1: nodes[0].spot: must be true or false, found "true"`},
		{"a bare number for a duration", "nodes: [{after: 90}]", `f:1: nodes[0].after: must be a duration such as "90s", found 90`},
		{"a mapping for a list", "nodes: {name: a}", "f:1: nodes: must be a list ([a, b], or lines that start with -), found a mapping"},
		{"text for a mapping", "by: x", `f:1: by: must be a mapping (key: value), found "x"`},
		{"a list as a key", "? [a]\n: b", "f:1: a key that is not plain text; write name: value"},
		{"a value within itself", "nodes: &a [{profiles: *a}]", "f:1: nodes[0].profiles[0]: must be a list ([a, b], or lines that start with -), found a mapping"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var into file
			if err := strictyaml.Decode("f", []byte(tt.text), &into); fmt.Sprint(err) != tt.want {
				t.Errorf("Decode(%q): %v\nwant %s", tt.text, err, tt.want)
			}
		})
	}
}

// Ten lists of ten of the one before are 10^9 values in a few lines.
func TestDecodeStopsAtAliasBombs(t *testing.T) {
	type nest struct {
		A []nest `json:"a"`
	}
	var b strings.Builder
	b.WriteString("x0: &x0 {a: []}\n")
	for i := 1; i < 10; i++ {
		fmt.Fprintf(&b, "x%d: &x%d {a: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*x%d,", i-1), 10), ","))
	}
	for name, text := range map[string]string{"many": b.String(), "cycle": "x: &x {a: [*x]}"} {
		var into map[string]nest
		var known *strictyaml.Error
		if err := strictyaml.Decode("f", []byte(text), &into); !errors.As(err, &known) || !strings.HasPrefix(known.Message, "too many values") {
			t.Errorf("%s: Decode: %v", name, err)
		}
	}
}

func TestDecodePanicsOnACallersBug(t *testing.T) {
	for name, into := range map[string]any{"no pointer": file{}, "a channel": &struct {
		Name chan int `json:"name"`
	}{}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: Decode did not panic", name)
				}
			}()
			_ = strictyaml.Decode("f", []byte("name: x"), into)
		}()
	}
}

func TestLocate(t *testing.T) {
	const text = "nodes:\n- name: a\n  labels:\n    nvidia.com/gpu: x\n- name: b\n  gpus: {product: x}\n"
	for path, want := range map[string]int{
		"nodes": 1, "nodes[0].name": 2, "nodes[1]": 5, "nodes[1].gpus.product": 6,
		`nodes[0].labels["nvidia.com/gpu"]`: 4,
		"nodes[0].labels.none":              3, "nodes[7].name": 1, "none": 1, "": 1, "[[": 1,
	} {
		if got := strictyaml.Locate([]byte(text), path); got != want {
			t.Errorf("Locate(%q) = %d, want %d", path, got, want)
		}
	}
	if got := strictyaml.Locate(nil, "x"); got != 0 {
		t.Errorf("Locate in an empty file = %d, want 0", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range []string{"nodes: [{name: a, count: 3}]", "by: {a: {labels: {x: y}}}", "x: &a [*a]", "nodes: [{any: &a {b: *a}}]", "{\"nodes\":\t[]}", "nodes: !!binary x", "nodes: [{raw: *x}]"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var into file
		err := strictyaml.Decode("f", data, &into)
		var known *strictyaml.Error
		if err != nil && (!errors.As(err, &known) || known.Message == "" || known.File != "f") {
			t.Fatalf("Decode: %#v is not a *strictyaml.Error with a message", err)
		}
		if known != nil && known.Field != "" && strictyaml.Locate(data, known.Field) == 0 {
			t.Fatalf("Locate(%q) = 0 for a field that Decode names", known.Field)
		}
	})
}
