package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // the ways to log in that kubectl has
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/homedir"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/datadir"
)

// dialPatience is how long a server may take to accept a connection.
const dialPatience = 5 * time.Second

// Flags are the flags that say which cluster, as which user, and which pods.
type Flags struct {
	kubeconfig    string
	Overrides     clientcmd.ConfigOverrides
	userExtra     []string // KEY=VALUE
	dir           string
	AllNamespaces bool
	named         bool // the cluster has been said
}

// quietFlags are those of kubectl's flags that work here and that help does not
// show.
var quietFlags = []string{
	"as-group", "as-uid", "as-user-extra", "certificate-authority", "client-certificate", "client-key", "cluster",
	"disable-compression", "insecure-skip-tls-verify", "server", "tls-server-name", "token", "user",
}

// AddFlags adds them to a command, with those for namespaces if it shows pods.
func (f *Flags) AddFlags(cmd *cobra.Command, namespaces bool) {
	own := cmd.Flags()
	own.StringVar(&f.kubeconfig, "kubeconfig", "", "Path to the kubeconfig file to use for CLI requests.")
	f.Overrides.ClusterDefaults = clientcmd.ClusterDefaults
	names := clientcmd.RecommendedConfigOverrideFlags("")
	names.ClusterOverrideFlags.APIServer.ShortName = "s"
	names.AuthOverrideFlags.Username, names.AuthOverrideFlags.Password = clientcmd.FlagInfo{}, clientcmd.FlagInfo{}
	names.ClusterOverrideFlags.ProxyURL = clientcmd.FlagInfo{}
	if !namespaces {
		names.ContextOverrideFlags.Namespace = clientcmd.FlagInfo{}
	}
	clientcmd.BindOverrideFlags(&f.Overrides, own, names)
	own.StringArrayVar(&f.userExtra, "as-user-extra", nil, "User extras to impersonate for the operation, as KEY=VALUE; may be repeated.")
	for _, name := range quietFlags {
		if flag := own.Lookup(name); flag != nil {
			flag.Hidden = true
		}
	}
	own.StringVar(&f.dir, "dir", "", "use the cluster of berth up in this data folder")
	if namespaces {
		own.Lookup("namespace").Usage = "show only GPUs used by pods of this namespace"
		own.BoolVarP(&f.AllNamespaces, "all-namespaces", "A", false, "show pods of all namespaces (the default)")
	}
}

// ShownNamespace is the one to show holders of; "" is all.
func (f *Flags) ShownNamespace() string {
	if f.AllNamespaces {
		return ""
	}
	return f.Overrides.Context.Namespace
}

// choice is a cluster that was chosen, before anything was asked of it.
type choice struct {
	path string // kubeconfig; "" is what client-go finds itself
	from string // for people
	next string // what to do when it does not answer
}

// choose picks the cluster: --kubeconfig, $KUBECONFIG, --dir, a running `berth
// up`, then the user's own.
func (f *Flags) choose() (choice, error) {
	const look = "check that it is running and that this machine can reach it"
	if path := f.kubeconfig; path != "" {
		return choice{path, path, look}, nil
	}
	if list := os.Getenv(clientcmd.RecommendedConfigPathEnvVar); list != "" {
		from := "$KUBECONFIG"
		if f.dir != "" {
			from += " (which takes precedence over --dir)"
		}
		if !anyExists(filepath.SplitList(list)) {
			return choice{}, &term.UnreachableError{Cluster: from, Err: fmt.Errorf("%s does not exist", list), Next: "unset KUBECONFIG or start the cluster that writes it"}
		}
		return choice{"", from, look}, nil
	}
	if f.dir != "" {
		d, err := datadir.At(f.dir)
		if err != nil {
			return choice{}, err
		}
		next := "start it with `berth up --dir " + term.ShellPath(string(d)) + "`"
		if !anyExists([]string{d.Kubeconfig()}) {
			return choice{}, &term.UnreachableError{Cluster: "the cluster in " + d.Short(), Err: errors.New("it has no kubeconfig"), Next: next}
		}
		return choice{d.Kubeconfig(), "berth up in " + d.Short(), next}, nil
	}
	if d, ok := running(); ok && f.wants(d.Kubeconfig()) {
		return choice{d.Kubeconfig(), "berth up in " + d.Short(), "see `berth status`"}, nil
	}
	own := filepath.Join(homedir.HomeDir(), clientcmd.RecommendedHomeDir, clientcmd.RecommendedFileName)
	if !anyExists([]string{own}) && f.Overrides.ClusterInfo.Server == "" && os.Getenv("KUBERNETES_SERVICE_HOST") == "" {
		return choice{}, &term.UnreachableError{
			Cluster: "a cluster", Err: errors.New("no kubeconfig was found and `berth up` is not running"),
			Next: "start one with `berth up`, or set --kubeconfig",
		}
	}
	return choice{"", "your kubeconfig", look + "; `berth up` starts one on this machine"}, nil
}

// wants reports whether a kubeconfig has the context that --context asks for.
func (f *Flags) wants(path string) bool {
	if f.Overrides.CurrentContext == "" {
		return true
	}
	c, err := clientcmd.LoadFromFile(path)
	return err == nil && c.Contexts[f.Overrides.CurrentContext] != nil
}

// running is the default data folder, if a control plane runs in it.
func running() (datadir.Dir, bool) {
	d, err := datadir.Default()
	if err != nil {
		return "", false
	}
	if _, err := d.State(); err != nil || d.Check() != nil {
		return "", false
	}
	_, held, err := d.Holder()
	return d, err == nil && held && anyExists([]string{d.Kubeconfig()})
}

func anyExists(paths []string) bool {
	for _, p := range paths {
		if _, err := os.Stat(p); err == nil {
			return true
		}
	}
	return false
}

// Cluster is a connection to a cluster.
type Cluster struct {
	kubernetes.Interface
	Config *rest.Config
	Name   string // for people: its address, and where that was found
	next   string
	notes  io.Writer // for people; nil is none

	busyPatience time.Duration // see Options
	mirror       *mirror       // nil: Read lists
}

// rest reads the kubeconfig at path, or those that client-go finds itself, and
// applies the flags.
func (f *Flags) rest(path string) (*rest.Config, error) {
	for _, kv := range f.userExtra {
		key, value, ok := strings.Cut(kv, "=")
		if !ok {
			return nil, term.Usagef("invalid --as-user-extra %q: must be KEY=VALUE", kv)
		}
		if f.Overrides.AuthInfo.ImpersonateUserExtra == nil {
			f.Overrides.AuthInfo.ImpersonateUserExtra = map[string][]string{}
		}
		f.Overrides.AuthInfo.ImpersonateUserExtra[key] = append(f.Overrides.AuthInfo.ImpersonateUserExtra[key], value)
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.Overrides).ClientConfig()
}

// Connect chooses a cluster, says on stderr which if it has not yet, and makes a client. Nothing
// is sent yet.
func (f *Flags) Connect(o Options) (*Cluster, error) {
	ch, err := f.choose()
	if err != nil {
		return nil, err
	}
	cfg, err := f.rest(ch.path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", ch.from, err)
	}
	c := &Cluster{Name: cfg.Host + " (" + ch.from + ")", next: ch.next, notes: o.Err, busyPatience: o.BusyPatience}
	if !f.named {
		term.Printf(o.Err, "cluster: %s (%s)\n", ch.from, cfg.Host)
	}
	f.named = true
	tune(cfg)
	c.Config = cfg
	connect := o.Connect
	if connect == nil {
		connect = func(cfg *rest.Config) (kubernetes.Interface, error) { return kubernetes.NewForConfig(cfg) }
	}
	if c.Interface, err = connect(cfg); err != nil {
		return nil, fmt.Errorf("read %s: %w", ch.from, err)
	}
	return c, nil
}

// tune lets a client read much, fast, and give up soon on a dead address.
func tune(cfg *rest.Config) {
	cfg.ContentType = "application/vnd.kubernetes.protobuf"
	cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	cfg.QPS = -1
	cfg.UserAgent = "berth/" + buildinfo.Version
	cfg.Dial = (&net.Dialer{Timeout: dialPatience, KeepAlive: 30 * time.Second}).DialContext
}

// Failed explains what a call returned: an answer of the server as it is, and
// anything else as a cluster that is not reached or did not answer in time.
func (c *Cluster) Failed(what string, err error) error {
	var status apierrors.APIStatus
	var dial *net.OpError
	var call *url.Error
	switch {
	case err == nil:
		return nil
	case apierrors.IsTimeout(err), apierrors.IsServerTimeout(err):
		return fmt.Errorf("%s on %s: %w (%w); try again, or set --request-timeout", what, c.Name, context.DeadlineExceeded, err)
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%s on %s: %w; request a role that allows it, or use --as", what, c.Name, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s on %s: %w; log in to the cluster again", what, c.Name, err)
	case errors.As(err, &status):
		return fmt.Errorf("%s on %s: %w", what, c.Name, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return &term.UnreachableError{Cluster: c.Name, Err: dial, Next: c.next}
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Errorf("%s on %s: %w after the request timeout; try again, or set a longer --request-timeout", what, c.Name, context.DeadlineExceeded)
	case errors.As(err, &call):
		return &term.UnreachableError{Cluster: c.Name, Err: call.Err, Next: c.next}
	}
	return fmt.Errorf("%s on %s: %w", what, c.Name, err)
}

// Namespace is the namespace to work in: --namespace, else the kubeconfig's, else
// "default".
func (f *Flags) Namespace() (string, error) {
	if f.Overrides.Context.Namespace != "" {
		return f.Overrides.Context.Namespace, nil
	}
	ch, err := f.choose()
	if err != nil {
		return "", err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = ch.path
	namespace, _, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &f.Overrides).Namespace()
	if err != nil {
		return "", fmt.Errorf("read the namespace of %s: %w", ch.from, err)
	}
	return cmp.Or(namespace, "default"), nil
}

// Dynamic makes the client for kinds that have no typed one.
func (c *Cluster) Dynamic(o Options) (dynamic.Interface, error) {
	connect := o.Dynamic
	if connect == nil {
		connect = func(cfg *rest.Config) (dynamic.Interface, error) { return dynamic.NewForConfig(cfg) }
	}
	client, err := connect(c.Config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.Name, err)
	}
	return client, nil
}
