// Command berth gives every workload on Kubernetes its place on a GPU.
package main

import (
	"context"
	"os"

	"berth.dev/berth/activator"
	"berth.dev/berth/agent/config"
	"berth.dev/berth/cli"
	"berth.dev/berth/cli/cluster"
	"berth.dev/berth/cli/process"
	"berth.dev/berth/controller/crd"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/meter"
	"berth.dev/berth/controller/notebook"
	"berth.dev/berth/controller/queue"
	"berth.dev/berth/controller/readings"
	"berth.dev/berth/controller/runtime"
	"berth.dev/berth/controller/serving"
	"berth.dev/berth/controller/training"
	"berth.dev/berth/controlplane"
	"berth.dev/berth/scheduler/server"
	"berth.dev/berth/scheduler/stuck"
)

func main() {
	os.Exit(cli.Main(os.Args, cli.Options{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Up: up, Scheduler: schedule, Controller: control, Meter: measure, Activator: activate, PluginConfig: config.Parse}))
}

// up joins the command to the control plane, which the cli layer may not import.
func up(ctx context.Context, o cluster.UpOptions) error {
	return controlplane.Run(ctx, controlplane.Options{
		Dir: o.Dir, Fleet: o.Fleet, Port: o.Port, Began: o.Began, Scheduler: o.Scheduler, HoldScheduler: o.HoldScheduler, Kubernetes: o.Kubernetes, NewKeys: o.NewKeys,
		AutoToleration: o.AutoToleration, OtherPods: o.OtherPods, ReserveAfter: &o.ReserveAfter, Stuck: stuck.Policy{Report: o.ReportStuck, Release: o.ReleaseStuck},
		UserSpeakers: o.Speakers, UserControllers: o.Controllers,
		Ledger: ledgerOptions(&o.LedgerPolicy), NoLedger: o.NoLedger,
		Notebooks: o.Notebooks, Training: o.Training, Serving: o.Serving, HostProcesses: o.HostProcesses, HostEnv: o.HostEnv, Laid: o.Laid, Died: o.Died, Step: o.Step, Ready: o.Ready,
	})
}

// schedule joins the command to the scheduler, which the cli layer may not import.
func schedule(ctx context.Context, o process.SchedulerOptions) error {
	run := server.Options{
		Kubeconfig: o.Kubeconfig, Names: o.Names, ConfigFile: o.ConfigFile,
		MetricsAddr: o.MetricsAddr, CertFile: o.CertFile, KeyFile: o.KeyFile,
		Policies: o.Policies, User: o.User, TakeOver: o.TakeOver, UserSpeakers: o.Speakers, UserControllers: o.Controllers,
		OtherPods: o.OtherPods, ReserveAfter: &o.ReserveAfter, Stuck: stuck.Policy{Report: o.ReportStuck, Release: o.ReleaseStuck},
	}
	if o.LeaderElect {
		run.Lease = &server.Lease{
			Namespace: o.LeaseNamespace, Name: o.LeaseName,
			Duration: o.LeaseDuration, Deadline: o.RenewDeadline, Retry: o.RetryPeriod,
		}
	}
	if o.PrintConfig {
		_, err := os.Stdout.WriteString(server.Configuration(server.Settings{Kubeconfig: o.Kubeconfig, Names: o.Names, Lease: run.Lease, OtherPods: o.OtherPods, ReserveAfter: &o.ReserveAfter}))
		return err
	}
	return server.Run(ctx, run)
}

// measure joins the command to the meter, which the cli layer may not import.
func measure(ctx context.Context, o process.MeterOptions) error {
	return meter.RunProcess(ctx, &meter.ProcessOptions{
		Options: ledgerOptions(&o.LedgerPolicy), Kubeconfig: o.Kubeconfig, Dir: o.Dir, Addr: o.Addr, CertFile: o.CertFile, KeyFile: o.KeyFile,
	})
}

func ledgerOptions(p *process.LedgerPolicy) meter.Options {
	out := readings.Outside{Webhook: p.Webhook, Prometheus: p.Prometheus, RemoteWrite: p.RemoteWrite, OTLP: p.OTLP, Transport: p.Credentials}
	return meter.Options{Keep: p.Keep, Export: p.Export, Smallest: p.Smallest, Outside: out, UsageDays: p.UsageDays}
}

// activate joins the command to the activator, which the cli layer may not import.
func activate(ctx context.Context, o process.ActivatorOptions) error {
	web := runtime.Web{Addr: o.Addr, CertFile: o.CertFile, KeyFile: o.KeyFile, TokenHeader: activator.TokenHeader}
	return activator.RunProcess(ctx, &activator.ProcessOptions{
		Kubeconfig: o.Kubeconfig, Name: o.PodName, Address: o.PodIP, Bind: o.Bind, Service: o.Service, Through: o.Through, Serve: web.Serve,
	})
}

// control joins the command to the controllers, which the cli layer may not import.
func control(ctx context.Context, o process.ControllerOptions) error {
	if o.PrintDefinitions {
		text, err := crd.Text()
		if err == nil {
			_, err = os.Stdout.WriteString(text)
		}
		return err
	}
	room := queue.NewRoom()
	notebooks := notebook.Kind(
		o.Notebooks,
		notebook.Options{Domain: o.Domain, FSGroup: o.FSGroup, Istio: o.Istio, IstioGateway: o.IstioGateway, IstioHost: o.IstioHost},
		idle.Options{Default: o.Idle, Domain: o.Domain, Proxied: o.Proxied, Room: room},
	)
	run := runtime.Options{
		Kubeconfig: o.Kubeconfig, Kinds: append([]runtime.Kind{notebooks, queue.Kind(queue.Options{Room: room}), serving.Kind(o.Serving, serving.Options{Domain: o.Domain, FetchImage: o.FetchImage, Outside: o.Outside, Activators: true})}, training.Kinds(o.Training, training.Options{Domain: o.JobDomain})...),
		MetricsAddr: o.MetricsAddr, CertFile: o.CertFile, KeyFile: o.KeyFile,
	}
	if o.LeaderElect {
		run.Lease = &runtime.Lease{
			Namespace: o.LeaseNamespace, Name: o.LeaseName,
			Duration: o.LeaseDuration, Deadline: o.RenewDeadline, Retry: o.RetryPeriod,
		}
	}
	return runtime.Run(ctx, run)
}
