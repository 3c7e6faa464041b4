package activator

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/heap"
	"berth.dev/berth/internal/pause"
	"berth.dev/berth/internal/rights"
)

// How a process ends.
const (
	leaveTime = 2 * time.Second  // until all nodes know that it no longer takes requests
	drainTime = 20 * time.Second // for those that it has, within a pod's usual 30 s
)

// ProcessOptions configures `berth activator`.
type ProcessOptions struct {
	Kubeconfig string // file; "" is the ServiceAccount of the pod that this runs in
	Name       string // of this pod
	Address    string // IP of this pod, which the EndpointSlices of services name
	Bind       string // IP to listen on for requests; "" is all
	// Service names the one before the replicas, in api.ActivatorNamespace; "" is that this is the only one.
	Service string
	// Through is the address of an HTTP proxy that connects to pods by CONNECT, as host:port or the path of a Unix socket; ""
	// is that this process reaches them.
	Through string
	// Serve serves metrics and health, which is good when ready returns nil, and what own has by path, until stop is called.
	Serve func(ctx context.Context, ready func() error, own map[string]http.Handler, cfg *rest.Config) (stop func(), err error)
}

// ProcessRules returns the rights that `berth activator` needs in the whole cluster, and no more. deploy/activator.yaml grants the
// same.
func ProcessRules() []rbacv1.PolicyRule {
	return append(Rules(),
		rights.Rule("", "pods", "list", "watch"),
		// To ask who requests figures and metrics, and whether they are allowed to.
		rights.Rule("authentication.k8s.io", "tokenreviews", "create"),
		rights.Rule("authorization.k8s.io", "subjectaccessreviews", "create"),
	)
}

// RunProcess holds and passes on requests until ctx ends, and then lets those that it has end.
func RunProcess(ctx context.Context, o *ProcessOptions) error {
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	go heap.Process().Start()(ctx)
	cfg, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	cfg.QPS = -1 // API servers defend themselves by priority and fairness
	client, user, err := rights.Check(ctx, cfg, "deploy/activator.yaml", rights.Need{Rules: ProcessRules()})
	if err != nil {
		return err
	}
	klog.InfoS("Running an activator", "server", cfg.Host, "user", user, "replica", o.Name, "address", o.Address)
	set := New(o.options(client))
	if err := legacyregistry.Registerer().Register(set); err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	tell := newTeller(set)
	var read atomic.Bool
	// Figures are served until the end, as services must not count as idle while requests end here.
	stop, err := o.Serve(context.WithoutCancel(ctx), func() error {
		switch {
		case ctx.Err() != nil:
			return errors.New("stopping")
		case !read.Load():
			return errors.New("the cluster has not been read yet")
		}
		return nil
	}, map[string]http.Handler{api.StatsPath: tell}, cfg)
	if err != nil {
		return err
	}
	defer stop()
	go func() {
		for range set.wakes {
			tell.held()
		}
	}()
	following, end := context.WithCancel(context.WithoutCancel(ctx)) // also while requests end
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- set.Run(following, func() { read.Store(true) }) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	err = o.leave(following, set)
	end()
	err = errors.Join(err, <-ended)
	klog.InfoS("The activator has ended", "err", err)
	return err
}

// leave lets requests go to other replicas, and those that are here end.
func (o *ProcessOptions) leave(ctx context.Context, set *Set) error {
	ctx, cancel := context.WithTimeout(ctx, leaveTime+drainTime)
	defer cancel()
	var err error
	if o.Service != "" {
		err = set.Withdraw(ctx)
		pause.For(ctx, leaveTime)
	}
	if drained := set.Drain(ctx); !errors.Is(drained, context.Canceled) {
		err = errors.Join(err, drained)
	}
	return err
}

// options are those of the Set of a process.
func (o *ProcessOptions) options(client kubernetes.Interface) Options {
	out := Options{
		Client: client, Address: o.Address, Name: o.Name, Stay: true, Log: slog.New(logr.ToSlogHandler(klog.Background())),
		Listen: func(had int32) (net.Listener, error) {
			l, err := net.Listen("tcp", net.JoinHostPort(o.Bind, strconv.Itoa(int(had))))
			if err != nil && had != 0 { // another has it
				l, err = net.Listen("tcp", net.JoinHostPort(o.Bind, "0"))
			}
			return l, err
		},
	}
	if o.Service != "" {
		out.Service = types.NamespacedName{Namespace: api.ActivatorNamespace, Name: o.Service}
	}
	if o.Through != "" {
		out.Dial = connectBy(o.Through)
	}
	return out
}
