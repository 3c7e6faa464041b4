package profile

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/gpu"
	core "berth.dev/berth/core/profile"
)

// somebody is for whom profiles are rendered when they are checked.
const somebody = "user"

// variant is one notebook that a profile can give.
type variant struct {
	what  string // "" is with all defaults, else "option=choice"
	maker *maker
}

// Check renders every profile of the file with its defaults and with each choice
// in turn, for a user who may choose all, and adds what is wrong or doubtful to
// the findings. It takes profiles of which something gives no notebook out of
// Profiles. It asks no cluster.
func (f *File) Check() {
	var kept []Loaded
	for i := range f.Profiles {
		l := &f.Profiles[i]
		if f.check(l) {
			kept = append(kept, *l)
		}
	}
	f.Profiles = kept
	var defaults []string
	for i := range f.Profiles {
		if f.Profiles[i].Spec.Default {
			defaults = append(defaults, f.Profiles[i].Spec.Slug)
		}
	}
	if len(defaults) > 1 {
		f.add(nil, "", CodeTwoDefaults, Doubt, fmt.Sprintf("the profiles %s are all default; the first counts", strings.Join(defaults, ", ")))
	}
	f.Findings = sorted(f.Findings)
}

// check is Check for one profile, and says whether all that it offers gives a
// notebook.
func (f *File) check(l *Loaded) bool {
	whole, err := plainOf(&l.NotebookProfile)
	if err != nil {
		f.add(l, "", CodeInvalid, Wrong, err.Error())
		return false
	}
	sound := true
	for i := range whole.Options {
		o := &whole.Options[i]
		f.order(l, o)
		if o.Unlisted == nil || !o.Unlisted.Enabled {
			continue
		}
		if err := o.Unlisted.Check(); err != nil {
			sound = false
			path := "profile_options." + o.Key + ".unlisted_choice"
			if key, ok := errors.AsType[*core.KeyError](err); ok {
				f.add(l, path+"."+key.Key, CodeInvalid, Wrong, key.Err.Error())
			} else {
				f.add(l, path, CodeInvalid, Wrong, err.Error())
			}
			o.Unlisted.Override = nil
		}
		o.Unlisted.Regex = "" // the variants write what need not match
	}
	for _, picks := range trialPicks(&whole) {
		m, err := try(&l.NotebookProfile, &whole, picks.picks)
		if err != nil {
			if key, ok := errors.AsType[*core.KeyError](err); ok {
				f.add(l, key.Key, CodeInvalid, Wrong, key.Err.Error())
			} else {
				f.add(l, "", CodeInvalid, Wrong, err.Error())
			}
			sound = false
			continue
		}
		l.variants = append(l.variants, variant{picks.what, m})
		f.warnings(l, m)
	}
	f.nulls(l, &whole)
	f.words(l)
	return sound
}

// try makes what a profile gives for picks.
func try(p *v1alpha1.NotebookProfile, whole *core.Profile, picks core.Picks) (*maker, error) {
	steps, err := whole.Steps(picks)
	if err != nil {
		return nil, err
	}
	m, err := newMaker(p.Spec.Base, Choices{User: somebody, Namespace: "default"})
	if err != nil {
		return nil, err
	}
	if err := m.set.Apply(steps); err != nil {
		return nil, err
	}
	if err := m.make(); err != nil {
		return nil, err
	}
	_, err = m.claim()
	return m, err
}

// named is picks and what they pick.
type named struct {
	what  string
	picks core.Picks
}

// trialPicks returns the defaults, and then each choice with the defaults of all
// other options.
func trialPicks(p *core.Profile) []named {
	needed := map[string]string{} // options without choices need something
	for i := range p.Options {
		if len(p.Options[i].Choices) == 0 {
			needed[p.Options[i].Key] = "value:1" // fit for an image
		}
	}
	out := []named{{picks: core.Picks{Unlisted: needed}}}
	for i := range p.Options {
		o := &p.Options[i]
		for _, c := range o.Choices {
			out = append(out, named{o.Key + "=" + c.Key, core.Picks{Options: map[string]string{o.Key: c.Key}, Unlisted: needed}})
		}
	}
	return out
}

// add adds a finding about a key of a profile; l may be nil for one about the
// file.
func (f *File) add(l *Loaded, key, code string, level Level, text string) {
	out := Finding{Code: code, Level: level, Text: text, Profile: allFile}
	if l == nil {
		f.find(out)
		return
	}
	out.Profile, out.Line = l.Spec.Slug, l.line
	lines := l.lines
	if first, _, _ := strings.Cut(key, "."); chartKeys[first] {
		lines = f.lines
		if code == CodeMovingTag {
			out.Profile = allFile // whichever of them came to it first
		}
	}
	for at := key; at != ""; {
		if line := lines[at]; line > 0 {
			out.Line = line
			break
		}
		at = at[:max(0, strings.LastIndexByte(at, '.'))]
	}
	out.Key = f.key(out.Line, l.Index, key)
	f.find(out)
}

// warnings adds what the maker warned of, each at the place where its setting was
// set last.
func (f *File) warnings(l *Loaded, m *maker) {
	for _, w := range m.warnings {
		f.add(l, w.at, w.code, w.level, w.Text)
	}
}

// order notes an option whose default is the first in the file: Helm sorts keys on
// their way to a hub.
func (f *File) order(l *Loaded, o *core.Option) {
	var keys []string
	for i := range o.Choices {
		if o.Choices[i].Default {
			return
		}
		keys = append(keys, o.Choices[i].Key)
	}
	if len(keys) == 0 || keys[0] == slices.Min(keys) {
		return
	}
	f.add(l, "profile_options."+o.Key+".choices", CodeDefaultByOrder, Remark, fmt.Sprintf(
		"no choice is the default, so the first is: %s here, but %s in a hub whose values come through Helm, which sorts keys; say default: true",
		keys[0], slices.Min(keys)))
}

// nulls notes nulls in the overrides: those that take a limit away, and those that
// clear what is not there.
func (f *File) nulls(l *Loaded, p *core.Profile) {
	m, err := newMaker(l.Spec.Base, Choices{User: somebody})
	if err != nil {
		return
	}
	f.nullsOf(l, "kubespawner_override", p.Override, m.set.Values)
	below := &core.Settings{Values: m.set.Values, From: m.set.From}
	if below.Apply([]core.Step{{Path: "kubespawner_override", Override: p.Override}}) != nil {
		return
	}
	for i := range p.Options {
		for _, c := range p.Options[i].Choices {
			f.nullsOf(l, "profile_options."+p.Options[i].Key+".choices."+c.Key+".kubespawner_override", c.Override, below.Values)
		}
	}
}

// nullsOf is nulls for one override over the values below it.
func (f *File) nullsOf(l *Loaded, path string, override, below map[string]any) {
	for key, value := range override {
		if value != nil {
			continue
		}
		switch {
		case key == "mem_limit" || key == "cpu_limit":
			f.add(l, path+"."+key, CodeNoLimit, Remark, "null: no limit, so that a notebook may use all that its node has")
		case below[key] == nil && settings[key]:
			f.add(l, path+"."+key, CodeNullNothing, Remark, "null clears what is not set")
		}
	}
}

// words notes a profile whose words name a GPU that nothing in it selects.
func (f *File) words(l *Loaded) {
	if len(l.variants) == 0 {
		return
	}
	m := l.variants[0].maker
	model := namedModel(l.Spec.DisplayName + " " + l.Spec.Description)
	if m.gpus() == 0 || model == "" {
		return
	}
	product, byProduct := selected(m)
	switch {
	case byProduct && !slices.Contains(words(product), strings.ToLower(model)):
		f.add(l, "display_name", CodeNotSelected, Doubt, fmt.Sprintf("its words say %s, and it selects %s", model, product))
	case !byProduct && len(m.pod.NodeSelector) == 0 && !requiresNodes(m):
		f.add(l, "display_name", CodeNotSelected, Doubt, fmt.Sprintf(
			"its words say %s, and nothing selects one: any GPU will do; add node_selector nvidia.com/gpu.product", model))
	}
}

// requiresNodes reports whether the pod has an affinity that nodes must meet.
func requiresNodes(m *maker) bool {
	a := m.pod.Affinity
	return a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil
}

// productLabels are the labels whose values name a GPU model.
var productLabels = []string{"nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator"}

// selected returns the GPU model that the node selector names.
func selected(m *maker) (product string, ok bool) {
	for _, label := range productLabels {
		if product, ok = m.pod.NodeSelector[label]; ok {
			return product, true
		}
	}
	return "", false
}

// models are the short names of GPU models that people write.
var models = func() []string { //nolint:gochecknoglobals // a table
	out := []string{"K80", "P4", "P40", "M60", "A16", "A40", "A2", "A6000", "RTX", "GH200", "GB200", "B100", "T4"}
	for _, p := range gpu.Products() {
		for _, word := range words(p.Name) {
			if len(word) >= 2 && len(word) <= 5 && strings.ContainsAny(word, "0123456789") && !strings.HasSuffix(word, "gb") &&
				!strings.HasPrefix(word, "sxm") && !strings.HasPrefix(word, "hbm") {
				out = append(out, strings.ToUpper(word))
			}
		}
	}
	return out
}()

// namedModel returns the first GPU model that a text names, or "".
func namedModel(text string) string {
	for _, word := range words(text) {
		if upper := strings.ToUpper(word); slices.Contains(models, upper) {
			return upper
		}
	}
	return ""
}

// words returns the words of a text in lower case: runs of letters and digits.
func words(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}
