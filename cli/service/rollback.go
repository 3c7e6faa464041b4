package service

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// leastHash is how many characters of a hash name a revision.
const leastHash = 4

// rollback is `berth service rollback`.
type rollback struct {
	command
	to string
}

func newRollback(o client.Options) *cobra.Command {
	r := &rollback{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "rollback NAME [--to REVISION]",
		Short: "Give a model service the spec of an earlier revision",
		Long: "Write the spec of an earlier revision into a service; its replicas are replaced as for every change. Without --to it is\n" +
			"the last other revision of which all replicas were ready, so a second rollback undoes the first. How many replicas there\n" +
			"are stays as it is, and a canary ends. `berth service show` lists the revisions that are kept.",
		Example:           "  berth service rollback mnist\n  berth service rollback mnist --to 3",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: r.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return r.run(cmd.Context(), args[0]) },
	}
	r.addFlags(cmd)
	cmd.Flags().StringVar(&r.to, "to", "", "revision: its number, or the start of its hash (default: the last other one that was ready)")
	return cmd
}

func (r *rollback) run(ctx context.Context, name string) error {
	s, err := r.connect()
	if err != nil {
		return err
	}
	o, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	h, err := s.revisions(ctx, o, nil)
	if err != nil {
		return s.refused("list the revisions of "+o.at(), "list", err)
	}
	to, err := h.find(o, r.to, s.options.Name)
	if err != nil {
		return err
	}
	spec, same, err := objects.Revert(&o.InferenceService, to)
	if err != nil {
		return err
	}
	if same {
		return fmt.Errorf("%s already has the spec of revision %d; what differs are labels, annotations, or the runtime: see `kubectl describe controllerrevision %s -n %s` and `kubectl get clusterservingruntimes`", o.at(), to.Revision, to.Name, to.Namespace)
	}
	if err := s.respec(ctx, o, "roll back", spec); err != nil {
		return err
	}
	_, err = term.Printf(s.options.Out, "%s goes back to revision %d (%s)\n  `%s service show %s` shows how far it is; if the service is applied from files, change them too\n",
		o.at(), to.Revision, short(to.Annotations[api.AnnotationServingSpec]), s.options.Name, o.Name)
	return err
}

// find returns the revision that a text names, or the one to which a rollback without a name leads.
func (h *history) find(o *service, text, program string) (*appsv1.ControllerRevision, error) {
	if len(h.objects) == 0 {
		return nil, fmt.Errorf("no revisions are kept of %s: `%s controller` keeps them of the services that it runs", o.at(), program)
	}
	if text == "" {
		newest := h.values[0].Name
		if _, same, err := objects.Revert(&o.InferenceService, h.objects[0]); err == nil && !same {
			newest = "" // the spec is of no revision: it is refused, or was not seen yet
		}
		back, ok := rules.Back(h.values, newest)
		switch {
		case !ok && len(h.objects) == 1 && newest != "":
			return nil, fmt.Errorf("%s has one revision, which is the current one, so there is none to go back to", o.at())
		case !ok:
			return nil, fmt.Errorf("%s has no other revision of which all replicas were ready; name one with --to: %s", o.at(), h.names())
		}
		return h.named(back.Name), nil
	}
	for i := range h.objects {
		if strconv.FormatInt(h.values[i].Number, 10) == text || h.values[i].Name == text {
			return h.objects[i], nil
		}
	}
	var found []*appsv1.ControllerRevision
	for _, one := range h.objects {
		if hash := one.Annotations[api.AnnotationServingSpec]; len(text) >= leastHash && strings.HasPrefix(hash, text) {
			found = append(found, one)
		}
	}
	if len(found) == 1 {
		return found[0], nil
	}
	return nil, fmt.Errorf("%s has no revision %s; there are %s", o.at(), text, h.names())
}

// named returns the revision of a name.
func (h *history) named(name string) *appsv1.ControllerRevision {
	for _, one := range h.objects {
		if one.Name == name {
			return one
		}
	}
	return nil
}

// names lists the revisions in an error.
func (h *history) names() string {
	var all []string
	for i, one := range h.objects {
		all = append(all, fmt.Sprintf("%d (%s)", h.values[i].Number, short(one.Annotations[api.AnnotationServingSpec])))
	}
	return strings.Join(all, ", ")
}

// respec writes the spec of a service, unless that has changed since it was read. Its status may have: controllers write it at any time.
func (s *services) respec(ctx context.Context, o *service, what string, spec map[string]any) error {
	type change struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}
	for version := o.ResourceVersion; ; {
		raw, err := json.Marshal([]change{{"add", "/metadata/resourceVersion", version}, {"replace", "/spec", spec}})
		if err != nil {
			return fmt.Errorf("write the spec of %s: %w", o.at(), err)
		}
		_, err = s.in(s.namespace).Patch(ctx, o.Name, types.JSONPatchType, raw, metav1.PatchOptions{FieldManager: "berth"})
		if !apierrors.IsConflict(err) {
			return s.refused(what+" "+o.at(), "patch", err)
		}
		now, err := s.in(s.namespace).Get(ctx, o.Name, metav1.GetOptions{})
		if err != nil {
			return s.refused("read "+o.at(), "get", err)
		}
		if now.GetUID() != o.UID || now.GetGeneration() != o.Generation {
			return fmt.Errorf("%s has changed in the meantime; look at it and try again", o.at())
		}
		version = now.GetResourceVersion()
	}
}
