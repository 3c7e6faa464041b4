package process

import (
	"time"

	"github.com/spf13/pflag"

	"berth.dev/berth/cli/term"
)

// LeaseOptions says how one of several processes is elected to lead.
type LeaseOptions struct {
	// LeaderElect is whether there may be several. The durations are those of the
	// lease.
	LeaderElect                               bool
	LeaseNamespace, LeaseName                 string
	LeaseDuration, RenewDeadline, RetryPeriod time.Duration
}

// flags adds upstream's flags; name is that of the lease, and does what the one that
// leads does: "schedule".
func (l *LeaseOptions) flags(f *pflag.FlagSet, name, does string) {
	f.BoolVar(&l.LeaderElect, "leader-elect", true, "elect one leader to "+does+"; false only for a single replica")
	f.StringVar(&l.LeaseNamespace, "leader-elect-resource-namespace", "kube-system", "namespace of the lease")
	f.StringVar(&l.LeaseName, "leader-elect-resource-name", name, "name of the lease")
	f.DurationVar(&l.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "time without renewal after which another replica takes over")
	f.DurationVar(&l.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "time without renewal after which the leader stops")
	f.DurationVar(&l.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "time between two attempts")
}

// check refuses what cannot work.
func (l *LeaseOptions) check() error {
	switch {
	case l.LeaderElect && l.LeaseDuration < time.Second:
		return term.Usagef("invalid --leader-elect-lease-duration %s: must be at least 1s", l.LeaseDuration)
	case l.LeaderElect && l.LeaseDuration <= l.RenewDeadline:
		return term.Usagef("invalid --leader-elect-renew-deadline %s: must be shorter than the lease duration (%s)", l.RenewDeadline, l.LeaseDuration)
	case l.LeaderElect && (l.RetryPeriod <= 0 || l.RenewDeadline <= l.RetryPeriod*6/5):
		return term.Usagef("invalid --leader-elect-retry-period %s: 1.2 times it must be shorter than the renew deadline (%s)", l.RetryPeriod, l.RenewDeadline)
	}
	return nil
}
