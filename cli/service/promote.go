package service

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/term"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// promote is `berth service promote`.
type promote struct {
	command
	force bool
}

func newPromote(o client.Options) *cobra.Command {
	p := &promote{command: command{options: o}}
	cmd := &cobra.Command{
		Use:   "promote NAME",
		Short: "Give the canary of a model service all requests",
		Long: "Remove canaryTrafficPercent from a service: its newest revision then takes the place of the one before, as it does\n" +
			"without a canary. A canary that was backed out is promoted only with --force.",
		Example:           "  berth service promote mnist",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return p.run(cmd.Context(), args[0]) },
	}
	p.addFlags(cmd)
	cmd.Flags().BoolVar(&p.force, "force", false, "promote a canary that was backed out")
	return cmd
}

func (p *promote) run(ctx context.Context, name string) error {
	s, err := p.connect()
	if err != nil {
		return err
	}
	o, err := s.find(ctx, name)
	if err != nil {
		return err
	}
	canary := o.Status.Condition(kserve.ConditionCanary)
	traffic := o.Status.Components[kserve.ComponentPredictor].Traffic
	switch {
	case o.written.Service.Canary == nil:
		return fmt.Errorf("%s has no canary, as spec.predictor.canaryTrafficPercent is not set; a new revision takes the place of the one before by itself", o.at())
	case len(traffic) == 0:
		return fmt.Errorf("%s has no canary: no earlier revision answers beside the newest; `%s service show %s` shows what is there", o.at(), s.options.Name, o.Name)
	case canary != nil && canary.Reason == rules.ReasonBackedOut && !p.force:
		return fmt.Errorf("%s: %s. To end the canary, use `%s service rollback %s`; to promote it all the same, add --force", o.at(), canary.Message, s.options.Name, o.Name)
	}
	spec, err := objects.Promote(&o.InferenceService)
	if err != nil {
		return err
	}
	if err := s.respec(ctx, o, "promote the canary of", spec); err != nil {
		return err
	}
	_, err = term.Printf(s.options.Out, "the newest revision of %s takes the place of the one before\n  `%s service show %s` shows how far it is; if the service is applied from files, remove canaryTrafficPercent there too\n", o.at(), s.options.Name, o.Name)
	return err
}
