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
	Section string // path of the section singleuser; "" is the whole file
	Entries int    // of its list, right or wrong
	// Profiles are those that could be read, in order, with the objects to write.
	Profiles []Loaded
	// Findings are what is wrong or without effect, by line. Profiles that could
	// not be read are among them and not among Profiles.
	Findings []Finding

	lines map[string]int // of keys of the section, by path from "singleuser"
}

// Loaded is one profile of a file.
type Loaded struct {
	v1alpha1.NotebookProfile
	Index int // in the file's list, from 0
	Line  int

	lines    map[string]int // of its keys, by path from the profile
	variants []variant      // what it gives; see File.Check
}

// Read reads the profiles of a values file: of zero-to-jupyterhub, of a chart
// around it, or of 2i2c's kind. name is for messages. A profile that cannot be
// read is named in Findings with its line and key, and the others are read all the
// same. The error is for a file that is no YAML or has no profiles.
func Read(name string, raw []byte) (*File, error) {
	root, more, err := document(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	r := newReader(name)
	if err := r.read(root); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if more {
		r.find(Finding{Code: CodeSeveralFiles, Level: Remark, Text: "only the first document of the file is read"})
	}
	r.mentions()
	r.file.Findings = sorted(r.file.Findings)
	return r.file, nil
}

// document returns the mapping that a file is, and whether more documents follow.
func document(raw []byte) (root *yaml.Node, more bool, err error) {
	if len(raw) > LargestFile {
		return nil, false, fmt.Errorf("%d bytes; at most %d are read", len(raw), LargestFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	var doc yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) || err == nil && len(doc.Content) == 0 {
		return nil, false, errors.New("the file is empty; it should have singleuser.profileList")
	} else if err != nil {
		return nil, false, fmt.Errorf("read YAML: %w", err)
	}
	if root = doc.Content[0]; target(root).Kind != yaml.MappingNode {
		return nil, false, errors.New("the file is not a mapping; it should have singleuser.profileList")
	}
	return root, !errors.Is(d.Decode(&yaml.Node{}), io.EOF), nil
}

func newReader(name string) *reader {
	return &reader{file: &File{Name: name, lines: map[string]int{}}, walker: walker{left: mostNodes}, unknown: map[string]*mention{}}
}

// reader reads one file.
type reader struct {
	walker
	file    *File
	unknown map[string]*mention
}

func (r *reader) find(f Finding) {
	f.File = r.file.Name
	r.file.Findings = append(r.file.Findings, f)
}

// read finds the section and reads its profiles.
func (r *reader) read(root *yaml.Node) error {
	for _, path := range sections {
		section, parent, err := r.descend(root, path)
		if err != nil {
			return err
		}
		if section == nil {
			continue
		}
		list, err := r.field(section, path, "profileList")
		if err != nil {
			return err
		}
		if list == nil || target(list).ShortTag() == "!!null" {
			continue
		}
		r.file.Section = path
		return r.section(section, parent, list)
	}
	return errors.New("there is no profileList; it was looked for in singleuser, jupyterhub.singleuser, basehub.jupyterhub.singleuser and at the top")
}

// descend returns the mapping at a path and the one that it is in; nil is none.
func (r *reader) descend(n *yaml.Node, path string) (at, parent *yaml.Node, err error) {
	if path == "" {
		return n, nil, nil
	}
	for key := range strings.SplitSeq(path, ".") {
		if target(n).Kind != yaml.MappingNode {
			return nil, nil, nil
		}
		parent = n
		if n, err = r.field(n, "", key); n == nil || err != nil {
			return nil, nil, err
		}
	}
	if target(n).Kind != yaml.MappingNode {
		return nil, nil, nil
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
func (r *reader) section(section, parent, list *yaml.Node) error {
	base, err := r.base(section, parent)
	if err != nil {
		return err
	}
	nodes, err := r.profiles(list)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fmt.Errorf("line %d: profileList is empty", list.Line)
	}
	r.file.Entries = len(nodes)
	for i, n := range nodes {
		p, err := r.profile(n, i)
		var wrong *lineError
		switch {
		case errors.As(err, &wrong):
			title, _ := r.title(n)
			r.find(Finding{
				Line: wrong.line, Profile: title, Key: r.file.key(i, wrong.key), Code: CodeInvalid, Level: Wrong, Text: wrong.text,
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

// key returns the path in the file of a key of profile i, or of the section, where
// it begins with "singleuser".
func (f *File) key(i int, key string) string {
	if rest, ok := strings.CutPrefix(key, "singleuser"); ok {
		return strings.TrimPrefix(f.Section+rest, ".")
	}
	at := join(f.Section, fmt.Sprintf("profileList[%d]", i))
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

// base returns the section as JSON, without its profiles, and with the chart's
// section scheduling.userPods beside it.
func (r *reader) base(section, parent *yaml.Node) (json.RawMessage, error) {
	list, err := r.pairs(section, r.file.Section)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, p := range list {
		if p.key == "profileList" || p.key == "scheduling" || r.file.Section == "" && !baseKeys[p.key] && hubOnly[p.key] == "" {
			continue
		}
		path := "singleuser." + p.key
		r.file.lines[path] = p.at.Line
		if out[p.key], err = r.value(p.value, path, r.file.lines); err != nil {
			return nil, err
		}
		r.baseKey(p, out[p.key])
	}
	if parent != nil {
		if common, _, err := r.descend(parent, "scheduling.userPods"); err != nil {
			return nil, err
		} else if common != nil {
			v, err := r.value(common, "scheduling.userPods", r.file.lines)
			if err != nil {
				return nil, err
			}
			out["scheduling"] = map[string]any{"userPods": v}
		}
	}
	raw, err := json.Marshal(out)
	return raw, err
}

// baseKey notes a key of the section that is not used.
func (r *reader) baseKey(p pair, value any) {
	switch {
	case p.key == "cloudMetadata" && at(value, "blockWithIptables") == false:
	case hubOnly[p.key] != "":
		r.find(Finding{
			Line: p.at.Line, Key: join(r.file.Section, p.key), Code: CodeUnused, Level: Remark, Text: "not used: " + hubOnly[p.key],
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
