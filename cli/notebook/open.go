package notebook

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/notebook/gate"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/kube/view"
)

const (
	notebookPort = 8888                   // of a container that declares none
	prefixName   = "NB_PREFIX"            // the variable that tells a notebook's server its path
	openAgain    = 500 * time.Millisecond // after a connection was lost
)

// notebookOpen is `berth notebook open`.
type notebookOpen struct {
	Command
	port    int
	timeout time.Duration
}

func newNotebookOpen(o client.Options, prospects Prospects) *cobra.Command {
	p := &notebookOpen{Command: Command{Options: o, prospects: prospects}}
	cmd := &cobra.Command{
		Use:   "open NAME",
		Short: "Forward a local port to a notebook, and print its address",
		Long: "Open a port on this machine's loopback address for a notebook, and print its address, with the path of its\n" +
			"server and a token. The first browser that opens the address trades the token for a cookie; stderr then\n" +
			"shows an address for the next one. Programs such as VS Code and curl keep the token. Requests without it,\n" +
			"from pages of other origins, or for other host names get 403. If the notebook is not ready yet, the command\n" +
			"waits for it. It runs until Ctrl-C, and reconnects if the notebook restarts.",
		Example:           "  berth notebook open ada\n  berth notebook open ada --port 8080",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.CompleteNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := untilInterrupted(cmd.Context())
			defer stop()
			return client.Interrupted(ctx, p.run(ctx, args[0]))
		},
	}
	p.AddFlags(cmd)
	cmd.Flags().IntVar(&p.port, "port", 0, "local port (default: a free one)")
	cmd.Flags().DurationVar(&p.timeout, "timeout", 0, "give up if it is not ready after this time (default: never)")
	return cmd
}

func (p *notebookOpen) run(ctx context.Context, name string) error {
	if p.port < 0 || p.port > 65535 {
		return term.Usagef("invalid --port %d: must be between 1 and 65535", p.port)
	}
	n, err := p.Connect()
	if err != nil {
		return err
	}
	nb, err := n.Get(ctx, name)
	if err != nil {
		return err
	}
	if State(nb) == explain.Stopped {
		return fmt.Errorf("notebook %s/%s is stopped%s; `%s notebook start %s` starts it",
			n.Namespace, name, because(StoppedFor(nb)), n.Program(), name)
	}
	g, err := p.open(nb)
	if err != nil {
		return err
	}
	defer g.Close()
	for said, tries := false, 0; ; tries++ {
		if State(nb) != explain.Ready {
			if nb, err = n.untilReady(ctx, name, p.timeout, p.Options.Err, nil); err != nil {
				return err
			}
		}
		to, err := n.target(ctx, nb)
		if err == nil {
			err = n.forward(ctx, to, g, func() {
				p.say(nb, to, g, said)
				said, tries = true, 0
			})
		}
		if ctx.Err() != nil || !said {
			return err
		}
		if tries == 0 {
			term.Printf(p.Options.Err, "the connection was lost (%v); reconnecting\n", err)
		}
		if nb, err = n.again(ctx, name, tries); err != nil {
			return err
		}
	}
}

// open takes the port, before anything is waited for: it stays the same when the
// notebook restarts, as the browser knows it.
func (p *notebookOpen) open(nb *kubeflow.Notebook) (*gate.Gate, error) {
	g, err := gate.Open(p.port, serverPath(nb), func(url string) {
		term.Printf(p.Options.Err, "opened; for another browser or program: %s\n", url)
	})
	if err != nil && p.port != 0 {
		return nil, term.Usagef("--port %d: %v; omit --port to use a free one", p.port, err)
	}
	return g, err
}

// say prints the address, once, and on stderr that a connection is there again.
func (p *notebookOpen) say(nb *kubeflow.Notebook, to target, g *gate.Gate, said bool) {
	if said {
		term.Printf(p.Options.Err, "reconnected to pod %s\n", to.pod)
		return
	}
	term.PrintLine(p.Options.Out, g.URL())
	term.Printf(p.Options.Err, "notebook %s/%s on %s, pod %s port %d; Ctrl-C ends it. If the page asks for another token: `kubectl logs -n %s %s`\n",
		nb.Namespace, nb.Name, Place(nb), to.pod, to.port, nb.Namespace, to.pod)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
}

// again waits before the next try, and reads the notebook again. One that was
// stopped or deleted ends the command.
func (n *Notebooks) again(ctx context.Context, name string, tries int) (*kubeflow.Notebook, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(openAgain * time.Duration(min(tries+1, 10))):
	}
	nb, err := n.Get(ctx, name)
	if err != nil {
		return nil, err
	}
	if s := State(nb); s == explain.Stopped || s == explain.Terminating {
		return nil, fmt.Errorf("notebook %s/%s was stopped%s; `%s notebook start %s` starts it again",
			n.Namespace, name, because(StoppedFor(nb)), n.Program(), name)
	}
	return nb, nil
}

// target is where a notebook's server answers.
type target struct {
	namespace, notebook, pod, uid string
	token                         string // that its server asks for, as far as the pod says it

	port int
}

// target finds the pod behind the notebook's Service, and the port at which it
// answers.
func (n *Notebooks) target(ctx context.Context, nb *kubeflow.Notebook) (target, error) {
	service, err := n.CoreV1().Services(n.Namespace).Get(ctx, nb.Name, metav1.GetOptions{})
	if err != nil {
		return target{}, n.Refused("read service "+n.Namespace+"/"+nb.Name, "get", err)
	}
	pods, err := n.CoreV1().Pods(n.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(service.Spec.Selector).String()})
	if err != nil {
		return target{}, n.Refused("list the pods of service "+n.Namespace+"/"+nb.Name, "list", err)
	}
	i := slices.IndexFunc(pods.Items, func(p v1.Pod) bool { return p.DeletionTimestamp == nil && p.Status.Phase == v1.PodRunning })
	if i < 0 {
		return target{}, fmt.Errorf("no pod of Service %s/%s is running; see `%s notebook why %s`", n.Namespace, nb.Name, n.Program(), nb.Name)
	}
	pod := &pods.Items[i]
	return target{
		namespace: n.Namespace, notebook: nb.Name, pod: pod.Name, uid: string(pod.UID),
		token: view.NotebookToken(&pod.Spec), port: portOf(service, pod),
	}, nil
}

// portOf is the port of a pod that the first port of a Service leads to.
func portOf(s *v1.Service, pod *v1.Pod) int {
	if len(s.Spec.Ports) == 0 {
		return notebookPort
	}
	to := s.Spec.Ports[0].TargetPort
	if to.Type == intstr.Int {
		return cmp.Or(to.IntValue(), int(s.Spec.Ports[0].Port))
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == to.StrVal {
				return int(p.ContainerPort)
			}
		}
	}
	return notebookPort
}

// serverPath is the path under which a notebook's own server answers: that which
// a gateway would rewrite to where the notebook names one, else NB_PREFIX, which
// is /notebook/NAMESPACE/NAME where the user has not set it.
func serverPath(nb *kubeflow.Notebook) string {
	path, given := nb.Annotations[api.AnnotationRewrite]
	if !given || path == "" {
		path = "/notebook/" + nb.Namespace + "/" + nb.Name
		if spec := podSpec(nb); len(spec.Containers) > 0 {
			for _, e := range spec.Containers[0].Env {
				if e.Name == prefixName && e.Value != "" {
					path = e.Value
				}
			}
		}
	}
	return "/" + strings.TrimPrefix(strings.TrimSuffix(path, "/")+"/", "/")
}
