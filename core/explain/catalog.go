package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Entry is what is known of a cause, whatever workload it keeps waiting.
type Entry struct {
	Code  Code
	Title string // what it is, as a sentence without an end
	Proof string // where the cluster shows it
	Helps string // what a person can do
	// Ask is the argument of `berth why` that shows it after its example was applied to
	// `berth up`; Make is how to see it there otherwise.
	Ask, Make string
	// Unmade is why `berth up` cannot make it, for a cause that only tests make.
	Unmade string
}

// Find returns the entry of a code, written in any case and with or without "BERTH-".
func Find(code string) (Entry, bool) {
	want := Code(strings.ToUpper(strings.TrimSpace(code)))
	if !strings.HasPrefix(string(want), "BERTH-") {
		want = "BERTH-" + want
	}
	i := slices.IndexFunc(Catalog, func(e Entry) bool { return e.Code == want })
	if i < 0 {
		return Entry{}, false
	}
	return Catalog[i], true
}

// Try is how to see the cause in `berth up`, as Markdown.
func (e *Entry) Try() string {
	switch {
	case e.Unmade != "":
		return "not there: " + e.Unmade
	case e.Ask == "":
		return e.Make
	}
	out := fmt.Sprintf("`berth explain %s --example | kubectl apply -f -`, then `berth why %s`", e.Code, e.Ask)
	if e.Make != "" {
		out += " (" + e.Make + ")"
	}
	return out
}

// Page is the entry as `berth explain` prints it and docs/causes shows it, in Markdown.
func (e *Entry) Page() string {
	return fmt.Sprintf("# %s: %s\n\n**Shown by:** %s.\n\n**What helps:** %s.\n\n**Try it** in `berth up`: %s.\n", e.Code, e.Title, e.Proof, e.Helps, e.Try())
}

// Catalog are all causes, by code. A code keeps its meaning.
var Catalog = slices.Concat(withoutPods, heldBackOnPurpose, offNodes, unscaled, outranked, notRunning, withoutGPUs) //nolint:gochecknoglobals // a constant
