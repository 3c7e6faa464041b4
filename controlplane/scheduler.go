package controlplane

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"

	"berth.dev/berth/scheduler/devices"
)

// The schedulers that Options.Scheduler can name.
const (
	SchedulerStock = "stock" // the unmodified kube-scheduler
	SchedulerBerth = "berth" // the same with Berth's plugins
)

// schedulerUser is who the scheduler is to the API server.
const schedulerUser = "system:kube-scheduler"

// chooseScheduler gives the scheduler that is asked for, else the one that the
// folder had, else the stock one.
func chooseScheduler(asked, had string) (string, error) {
	switch {
	case asked == SchedulerStock || asked == SchedulerBerth:
		return asked, nil
	case asked != "":
		return "", fmt.Errorf("scheduler %q: it is %s or %s", asked, SchedulerStock, SchedulerBerth)
	case had == "":
		return SchedulerStock, nil
	}
	return had, nil
}

// schedulerConfig is the scheduler's configuration file. A file is needed
// because the scheduler replaces what was set on its options by defaults.
func schedulerConfig(kubeconfig, which string) string {
	text := "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n" +
		"leaderElection: {leaderElect: false}\n" +
		"clientConnection: {kubeconfig: " + kubeconfig + ", qps: 5000, burst: 10000, contentType: application/vnd.kubernetes.protobuf}\n"
	if which != SchedulerBerth {
		return text
	}
	text += "profiles:\n"
	for _, name := range []string{"default-scheduler", "berth-scheduler"} {
		text += berthProfile(name)
	}
	return text
}

// berthProfile is a profile with Berth's plugin. It binds before the default
// binder does. What a user prefers (affinity, taints) outweighs how well the
// devices are packed, and that outweighs the spreading that nobody asked for.
func berthProfile(name string) string {
	return "- schedulerName: " + name + "\n  plugins:\n" +
		"    multiPoint: {enabled: [{name: " + devices.Name + ", weight: 5}]}\n" +
		"    bind: {enabled: [{name: " + devices.Name + "}]}\n" +
		"    score: {enabled: [{name: NodeAffinity, weight: 20}, {name: InterPodAffinity, weight: 20}, {name: TaintToleration, weight: 20}]}\n"
}

// plugins are what the scheduler has beside its own.
func (p *plane) plugins() []scheduler.Option {
	if p.state.Scheduler != SchedulerBerth {
		return nil
	}
	return []scheduler.Option{scheduler.WithPlugin(devices.Name, devices.Factory())}
}

// guardDevices applies the admission policy that keeps committed devices to the
// scheduler, where Berth's runs. It stays when the stock scheduler comes back.
func (p *plane) guardDevices(ctx context.Context, client kubernetes.Interface) error {
	if p.state.Scheduler != SchedulerBerth {
		return nil
	}
	policy, binding := devices.Policy(schedulerUser)
	policies, bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := policies.Create(ctx, policy, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		was, getErr := policies.Get(ctx, policy.Name, metav1.GetOptions{})
		if getErr != nil {
			return fmt.Errorf("guard the devices of pods: %w", getErr)
		}
		policy.ResourceVersion = was.ResourceVersion
		_, err = policies.Update(ctx, policy, metav1.UpdateOptions{})
	}
	if err == nil {
		_, err = bindings.Create(ctx, binding, metav1.CreateOptions{})
	}
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("guard the devices of pods: %w", err)
	}
	return nil
}
