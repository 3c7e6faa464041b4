package profile

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// Source is a values file.
type Source struct {
	Name string // for messages
	Raw  []byte
}

// source is a file whose lines are numbered after those of the files before it, so
// that a line alone tells its file.
type source struct {
	name    string
	before  int    // lines of the files before it
	section string // path of the section singleuser in it; "" is the whole file
}

// sources are the files of a reader; the first goes before the others.
type sources []source

// at returns the file of a line, and the line within it.
func (s sources) at(line int) (source, int) {
	of := s[0]
	for _, each := range s[1:] {
		if line > each.before {
			of = each
		}
	}
	return of, max(0, line-of.before)
}

// own returns a line within its file.
func (s sources) own(line int) int {
	_, line = s.at(line)
	return line
}

// named returns an error with the file that it is about, and the line in that file.
func (s sources) named(err error) error {
	if wrong, ok := errors.AsType[*lineError](err); ok {
		of, line := s.at(wrong.line)
		return fmt.Errorf("%s: %w", of.name, &lineError{line: line, key: wrong.key, text: wrong.text})
	}
	return fmt.Errorf("%s: %w", s[0].name, err)
}

// chartKeys are the keys of the chart's values that the pod of a user depends on.
var chartKeys = map[string]bool{
	"singleuser": true, "scheduling": true, "imagePullSecret": true, "imagePullSecrets": true, "hub": true, "cull": true,
}

// open reads files, the first over all others, and gives the chart's values that they
// make together: as with Helm, mappings are merged and anything else is replaced. A
// null stays, so that it takes away what the chart says.
func (r *reader) open(files []Source) ([]pair, error) {
	var merged []pair
	before := 0
	for i, file := range files {
		r.file.of = append(r.file.of, source{name: file.Name, before: before})
		root, more, err := document(file.Raw)
		if errors.Is(err, errEmpty) && len(files) > 1 {
			continue // as with Helm
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file.Name, err)
		}
		move(root, before)
		if more {
			r.find(Finding{Line: before, Code: CodeSeveralFiles, Level: Remark, Text: "only the first document of the file is read"})
		}
		before += bytes.Count(file.Raw, []byte("\n")) + 1
		own, section, err := r.chart(root)
		if err != nil {
			return nil, r.file.of.named(err)
		}
		r.file.of[i].section = section
		if merged, err = r.lay(own, merged); err != nil {
			return nil, r.file.of.named(err)
		}
	}
	return merged, nil
}

// move adds to the lines of all nodes of a file.
func move(n *yaml.Node, lines int) {
	n.Line += lines
	for _, each := range n.Content {
		move(each, lines)
	}
}

// What a file has of the chart's values, the least first.
const (
	hasNothing = iota
	hasOthers  // none of the section singleuser
	hasSection
	hasProfiles
)

// chart returns the chart's values in a file, and the path of the section singleuser.
// A file that has no such section, as others of a hub, may still have other values of
// the chart. Of several sections the first that has profiles counts.
func (r *reader) chart(root *yaml.Node) (values []pair, section string, err error) {
	most := hasNothing
	for _, path := range sections {
		found, has, err := r.valuesAt(root, path)
		if err != nil {
			return nil, "", err
		}
		if has > most {
			values, section, most = found, path, has
		}
	}
	return values, section, nil
}

// valuesAt returns the chart's values where the section is at a path, and what they are.
func (r *reader) valuesAt(root *yaml.Node, path string) (values []pair, has int, err error) {
	section, parent, err := r.descend(root, path)
	if err != nil || section == nil && parent == nil {
		return nil, hasNothing, err
	}
	if path == "" {
		return r.sectionAlone(root)
	}
	all, err := r.pairs(parent, path)
	for _, p := range all {
		if chartKeys[p.key] {
			values, has = append(values, p), hasOthers
		}
	}
	if err != nil || section == nil {
		return values, has, err
	}
	profiles, err := r.field(section, path, "profileList")
	if isSet(profiles) {
		return values, hasProfiles, err
	}
	return values, hasSection, err
}

// sectionAlone returns the values of a file that is the section singleuser alone.
func (r *reader) sectionAlone(root *yaml.Node) (values []pair, has int, err error) {
	all, err := r.pairs(root, "")
	section := &yaml.Node{Kind: yaml.MappingNode, Line: root.Line}
	for _, p := range all {
		if chartKeys[p.key] || !baseKeys[p.key] && hubOnly[p.key] == "" {
			continue
		}
		section.Content = append(section.Content, p.at, p.value)
		has = max(has, hasSection)
		if p.key == "profileList" && isSet(p.value) {
			has = hasProfiles
		}
	}
	return []pair{{"singleuser", section, section}}, has, err
}

// isSet reports whether a value is there and is not null.
func isSet(n *yaml.Node) bool { return n != nil && target(n).ShortTag() != "!!null" }

// lay lays entries over others.
func (r *reader) lay(under, over []pair) ([]pair, error) {
	out := overlay(under, over)
	for i := range out {
		a, b := entry(under, out[i].key), entry(over, out[i].key)
		if a == nil || b == nil || target(a).Kind != yaml.MappingNode || target(b).Kind != yaml.MappingNode {
			continue
		}
		both, err := r.layMappings(a, b, out[i].key)
		if err != nil {
			return nil, err
		}
		out[i].value = both
	}
	return out, nil
}

// layMappings is lay for two mappings.
func (r *reader) layMappings(under, over *yaml.Node, key string) (*yaml.Node, error) {
	if err := r.enter(over, key); err != nil {
		return nil, err
	}
	defer r.leave()
	a, err := r.pairs(under, key)
	if err != nil {
		return nil, err
	}
	b, err := r.pairs(over, key)
	if err != nil {
		return nil, err
	}
	all, err := r.lay(a, b)
	out := &yaml.Node{Kind: yaml.MappingNode, Line: over.Line}
	for _, p := range all {
		out.Content = append(out.Content, p.at, p.value)
	}
	return out, err
}

// entry returns the value of a key among entries; nil is none.
func entry(list []pair, key string) *yaml.Node {
	for _, p := range list {
		if p.key == key {
			return p.value
		}
	}
	return nil
}
