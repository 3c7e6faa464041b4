// Package can is `berth can`: it says of manifests whether their pods would start now, and if not, why and what would
// help, before they are applied.
package can

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook"
	"berth.dev/berth/cli/term"
)

// command is `berth can`.
type command struct {
	notebook.Command
	files  []string
	output term.Output
}

// New makes `berth can`.
func New(o client.Options) *cobra.Command {
	c := &command{Command: notebook.Command{Options: o}}
	cmd := &cobra.Command{
		Use:   "can -f FILE",
		Short: "Check whether manifests would start now, where, and at what price, before they are applied",
		Long: "Read manifests and show for each object whether its pods would start now: on which nodes and GPUs, and what they\n" +
			"would cost an hour, or why not and what would help, as `berth why` explains pods that wait. Objects are judged in\n" +
			"their order: pods of earlier ones hold their places. The API server checks each object and its pods by dry run,\n" +
			"as far as you may create them: defaults, quotas, and policies of the cluster count. Nothing is written.\n" +
			"Exits with code 3 if something would not start now.",
		Example: "  berth can -f job.yaml\n  berth can -f manifests/ -n research -o json\n  kubectl kustomize overlays/prod | berth can -f -",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return c.run(cmd.Context()) },
	}
	c.AddFlags(cmd)
	c.output.AddFlags(cmd, term.Rows{Kind: "CanList", Row: answer{}})
	cmd.Flags().StringArrayVarP(&c.files, "filename", "f", nil, "file or folder with manifests (*.yaml, *.yml, and *.json); - is standard input; may be repeated")
	return cmd
}

func (c *command) run(ctx context.Context) error {
	if c.output.Format == term.OutputName {
		return term.Usagef("--output name: not supported for answers; use json, yaml, jsonpath=..., or go-template=...")
	}
	if err := c.output.Check(); err != nil {
		return err
	}
	if len(c.files) == 0 {
		return term.Usagef("-f is missing: name a file or a folder with manifests, or - for standard input")
	}
	objects, err := c.read()
	if err != nil {
		return err
	}
	n, err := c.Connect()
	if err != nil {
		return err
	}
	j, err := newJudge(ctx, n)
	if err != nil {
		return err
	}
	answers, err := j.all(ctx, objects)
	if err != nil {
		return err
	}
	if err := c.print(answers); err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(answers, func(a *answer) bool { return a.State == waits || a.State == refused }):
		return term.ErrFound
	case slices.ContainsFunc(answers, func(a *answer) bool { return a.State == unknown }):
		return errUnknown
	}
	return nil
}

var errUnknown = errors.New("whether pods start now is not known: you cannot list nodes or the pods of all namespaces; request a role that allows it")

// The states of an answer.
const (
	starts  = "starts"  // all pods that it needs start now
	waits   = "waits"   // not now; with never, waiting does not help
	refused = "refused" // the API server would refuse the object, or its pods
	exists  = "exists"  // an object of its name is there
	later   = "later"   // it makes no pods by itself
	nothing = "nothing" // it is of a kind without pods, and would be accepted
	unknown = "unknown" // it would be accepted, and nodes or pods cannot be read
)

// answer is what is said of one object, or of several whose pods start together.
type answer struct {
	File         string   `json:"file"`
	Line         int      `json:"line"` // from 1
	Kind         string   `json:"kind"`
	Namespace    string   `json:"namespace,omitempty"`
	Name         string   `json:"name"`
	With         []string `json:"with,omitempty"` // the names of other objects whose pods start together with these
	State        string   `json:"state"`
	Never        bool     `json:"never,omitempty"` // no wait helps: someone has to change something
	Pods         int      `json:"pods"`
	Starts       int      `json:"starts"` // of Pods, now
	Preempts     bool     `json:"preempts,omitempty"`
	Places       []place  `json:"places,omitempty"`
	PricePerHour *float64 `json:"pricePerHour,omitempty"` // of the pods that start; null is not known
	Currency     string   `json:"currency,omitempty"`
	Code         string   `json:"code,omitempty"`  // `berth explain CODE` tells more
	Cause        string   `json:"cause,omitempty"` // why not now
	Others       []string `json:"others,omitempty"`
	When         string   `json:"when,omitempty"`        // when it is likely to start, and what that rests on
	LikelyStart  string   `json:"likelyStart,omitempty"` // RFC 3339: in half of the cases; "" is not known
	NineOfTenBy  string   `json:"nineOfTenBy,omitempty"` // RFC 3339: in nine of ten cases
	Helps        []string `json:"helps,omitempty"`
	Notes        []string `json:"notes,omitempty"` // warnings of the API server, and what was assumed
}

// place is what some pods get of a node.
type place struct {
	Node string `json:"node"`
	Pods int    `json:"pods"`
	GPUs []int  `json:"gpus,omitempty"` // indexes; none is that they get none, or that they are not known
}

// title is the kind and name of what an answer is about.
func (a *answer) title() string {
	if len(a.With) > 0 {
		return fmt.Sprintf("%ss %s and %d more", a.Kind, a.Name, len(a.With))
	}
	return a.Kind + " " + a.Name
}
