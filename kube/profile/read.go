package profile

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"berth.dev/berth/api/v1alpha1"
)

// LargestFile is the most bytes of a values file that are read.
const LargestFile = 4 << 20

// sections are the paths at which a values file may have the section singleuser:
// zero-to-jupyterhub's own, that of a chart which has it as a dependency, that of
// daskhub, and a file of the section alone.
var sections = []string{"singleuser", "jupyterhub.singleuser", "basehub.jupyterhub.singleuser", ""}

// File is the profiles of a values file.
type File struct {
	Name    string
	Entries int // of its list, right or wrong
	// Profiles are those that could be read, in order, with the objects to write.
	Profiles []Loaded
	// Findings are what is wrong or without effect, by line. Profiles that could
	// not be read are among them and not among Profiles.
	Findings []Finding

	of    sources
	lines map[string]int // of keys of the section, by path from "singleuser"
}

// Loaded is one profile of a file.
type Loaded struct {
	v1alpha1.NotebookProfile
	Index int // in the file's list, from 0

	line     int            // of its beginning; see source
	lines    map[string]int // of its keys, by path from the profile
	variants []variant      // what it gives; see File.Check
}

// Read reads the profiles of a values file: of zero-to-jupyterhub, of a chart
// around it, or of 2i2c's kind. name is for messages. under are files that it
// overrides, as with helm -f, lowest precedence first; none of the files alone needs
// to have profiles, or a section singleuser. A profile that cannot be read is named in
// Findings with its file, line and key, and the others are read all the same. The
// error is for a file that is no YAML, or files that have no profiles together.
func Read(name string, raw []byte, under ...Source) (*File, error) {
	r := newReader(name)
	files := append(slices.Clone(under), Source{name, raw})
	slices.Reverse(files)
	values, err := r.open(files)
	if err != nil {
		return nil, err
	}
	if err := r.read(values); err != nil {
		return nil, r.file.of.named(err)
	}
	r.mentions()
	r.file.Findings = sorted(r.file.Findings)
	return r.file, nil
}

// errEmpty is a file without a value.
var errEmpty = errors.New("the file is empty; it should have singleuser.profileList")

// document returns the mapping that a file is, and whether more documents follow.
func document(raw []byte) (root *yaml.Node, more bool, err error) {
	if len(raw) > LargestFile {
		return nil, false, fmt.Errorf("%d bytes; at most %d are read", len(raw), LargestFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, false, errEmpty
	} else if err != nil {
		return nil, false, fmt.Errorf("read YAML: %w", err)
	}
	if root = doc.Content[0]; target(root).Kind != yaml.MappingNode {
		return nil, false, errors.New("the file is not a mapping; it should have singleuser.profileList")
	}
	return root, !errors.Is(d.Decode(&yaml.Node{}), io.EOF), nil
}

func newReader(name string) *reader {
	r := &reader{file: &File{Name: name, lines: map[string]int{}}, walker: walker{left: mostNodes}, unknown: map[string]*mention{}}
	r.own = func(line int) int { return r.file.of.own(line) }
	return r
}

// reader reads one file.
type reader struct {
	walker
	file    *File
	unknown map[string]*mention
}

func (r *reader) find(f Finding) { r.file.find(f) }

// find adds a finding, and names the file and the line in it.
func (f *File) find(found Finding) {
	of, line := f.of.at(found.Line)
	found.order, found.File, found.Line = found.Line, of.name, line
	f.Findings = append(f.Findings, found)
}

// read reads the profiles of the chart's values.
func (r *reader) read(values []pair) error {
	section := entry(values, "singleuser")
	if section != nil && target(section).Kind == yaml.MappingNode {
		list, err := r.field(section, "singleuser", "profileList")
		if err != nil {
			return err
		}
		if isSet(list) {
			return r.section(section, values, list)
		}
	}
	where := ""
	if len(r.file.of) > 1 {
		var names []string
		for _, each := range r.file.of[1:] {
			names = append(names, each.name)
		}
		where = fmt.Sprintf(" in it or in what it overrides (%s)", strings.Join(names, ", "))
	}
	return fmt.Errorf("there is no profileList%s; it was looked for in singleuser, jupyterhub.singleuser, basehub.jupyterhub.singleuser and at the top", where)
}

// descend returns the mapping at a path and the one that it would be in; nil is none.
func (r *reader) descend(n *yaml.Node, path string) (at, parent *yaml.Node, err error) {
	if path == "" {
		return n, nil, nil
	}
	for key := range strings.SplitSeq(path, ".") {
		if n == nil || target(n).Kind != yaml.MappingNode {
			return nil, nil, nil
		}
		parent = n
		if n, err = r.field(n, "", key); err != nil {
			return nil, nil, err
		}
	}
	if n != nil && target(n).Kind != yaml.MappingNode {
		n = nil
	}
	return n, parent, nil
}

// field returns the value of a key of a mapping; nil is none.
func (r *reader) field(n *yaml.Node, path, key string) (*yaml.Node, error) {
	list, err := r.pairs(n, path)
	for _, p := range list {
		if p.key == key {
			return p.value, err
		}
	}
	return nil, err
}

// section reads the base settings and the profiles.
func (r *reader) section(section *yaml.Node, values []pair, list *yaml.Node) error {
	base, err := r.base(section, values)
	if err != nil {
		return err
	}
	nodes, err := r.profiles(list)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return wrongAt(list, "profileList", "the list is empty")
	}
	r.file.Entries = len(nodes)
	for i, n := range nodes {
		p, err := r.profile(n, i)
		var wrong *lineError
		switch {
		case errors.As(err, &wrong):
			title, _ := r.title(n)
			r.find(Finding{
				Line: wrong.line, Profile: title, Key: r.file.key(wrong.line, i, wrong.key), Code: CodeInvalid, Level: Wrong, Text: wrong.text,
			})
		case err != nil:
			return err
		default:
			p.Spec.Base = base
			r.file.Profiles = append(r.file.Profiles, *p)
		}
	}
	r.names()
	return nil
}

// key returns the path in the file that has a line of a key of profile i, or of the
// section, where it begins with "singleuser".
func (f *File) key(line, i int, key string) string {
	of, _ := f.of.at(line)
	if rest, ok := strings.CutPrefix(key, "singleuser"); ok {
		return strings.TrimPrefix(of.section+rest, ".")
	}
	if first, _, _ := strings.Cut(key, "."); chartKeys[first] {
		return strings.TrimSuffix(of.section, "singleuser") + key
	}
	at := join(of.section, fmt.Sprintf("profileList[%d]", i))
	if key == "" {
		return at
	}
	return join(at, key)
}

// title returns the display_name of a profile that may not be readable.
func (r *reader) title(n *yaml.Node) (string, bool) {
	v, err := r.field(n, "", "display_name")
	if err != nil || v == nil || target(v).Kind != yaml.ScalarNode {
		return "", false
	}
	return target(v).Value, true
}

// base returns the section as JSON, without its profiles, and with the chart's other
// values beside it that a pod depends on.
func (r *reader) base(section *yaml.Node, values []pair) (json.RawMessage, error) {
	list, err := r.pairs(section, "singleuser")
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, p := range list {
		if p.key == "profileList" || chartKeys[p.key] {
			continue
		}
		path := "singleuser." + p.key
		r.file.lines[path] = p.at.Line
		if out[p.key], err = r.value(p.value, path, r.file.lines); err != nil {
			return nil, err
		}
		r.baseKey(p, out[p.key])
	}
	for _, beside := range besideSection {
		if err := r.beside(values, beside, out); err != nil {
			return nil, err
		}
	}
	if err := r.readByHub(values); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(out)
	return raw, err
}

// besideSection are the chart's values beside the section that a pod depends on. Some of
// the others are secrets: passwords of registries, and tokens of the hub.
var besideSection = []string{
	"scheduling.userPods", "imagePullSecret.create", "imagePullSecret.automaticReferenceInjection", "imagePullSecrets",
	"hub.config.Spawner", "hub.config.KubeSpawner", "cull.enabled", "cull.maxAge",
}

// beside puts one of the chart's values into the section, at the same path.
func (r *reader) beside(values []pair, path string, out map[string]any) error {
	first, rest, _ := strings.Cut(path, ".")
	n := entry(values, first)
	keys := []string{first}
	for rest != "" && n != nil {
		if target(n).Kind != yaml.MappingNode {
			return nil
		}
		var key string
		key, rest, _ = strings.Cut(rest, ".")
		keys = append(keys, key)
		var err error
		if n, err = r.field(n, first, key); err != nil {
			return err
		}
	}
	if n == nil {
		return nil
	}
	v, err := r.value(n, path, r.file.lines)
	if err != nil {
		return err
	}
	r.file.lines[path] = n.Line
	for _, key := range keys[:len(keys)-1] {
		inner, there := out[key].(map[string]any)
		if !there {
			inner = map[string]any{}
		}
		out[key], out = inner, inner
	}
	out[keys[len(keys)-1]] = v
	return nil
}

// baseKey notes a key of the section that is not used.
func (r *reader) baseKey(p pair, value any) {
	switch {
	case p.key == "cloudMetadata" && at(value, "blockWithIptables") == false:
	case hubOnly[p.key] != "":
		r.find(Finding{
			Line: p.at.Line, Key: r.file.key(p.at.Line, 0, "singleuser."+p.key), Code: CodeUnused, Level: Remark, Text: "not used: " + hubOnly[p.key],
		})
	case !baseKeys[p.key]:
		r.mention("singleuser", p.key, p.at.Line)
	}
}

// profiles gives the nodes of the list: of a mapping, its values by key.
func (r *reader) profiles(list *yaml.Node) ([]*yaml.Node, error) {
	list = target(list)
	if list.Kind == yaml.SequenceNode {
		return list.Content, nil
	}
	if list.Kind != yaml.MappingNode {
		return nil, wrongAt(list, "profileList", "it must be a list of profiles, or a mapping whose values are profiles")
	}
	all, err := r.pairs(list, "profileList")
	slices.SortFunc(all, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	var out []*yaml.Node
	for _, p := range all {
		out = append(out, p.value)
	}
	return out, err
}
