package pods

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"berth.dev/berth/api"
	"berth.dev/berth/internal/input"
)

// DefaultPoll is how often the kubelet is asked: it has no watch.
const DefaultPoll = 10 * time.Second

// Kubelet is the pods of one node as its kubelet has them, with static pods
// under their own UIDs. It is safe for concurrent use.
type Kubelet struct {
	url    string
	client *http.Client
	token  string // file; "" is none
	dir    string // of the kubelet's folders of pods; "" is none
	every  time.Duration
	log    *slog.Logger

	changed chan struct{} // of capacity 1

	mu   sync.Mutex
	pods []*v1.Pod
	seen bool
	last string // what was seen last, to tell whether it has changed
}

// KubeletOptions say how a kubelet is asked.
type KubeletOptions struct {
	URL string // such as https://127.0.0.1:10250
	// Client speaks to it; nil is http.DefaultClient. Kubelets have certificates
	// that they have signed themselves unless told otherwise.
	Client *http.Client
	// TokenFile is the file of a bearer token, read for each request; "" is none.
	TokenFile string
	// Dir is the kubelet's folder with one folder for each pod, by UID. A kubelet
	// that has just started lists no pods, and one that ends a static pod lists it
	// no more; the pod's folder is there until its containers have ended. "" trusts
	// the list alone.
	Dir  string
	Poll time.Duration // 0 is DefaultPoll
	Log  *slog.Logger  // nil is none
}

// FromKubelet makes the source of a node's pods from its kubelet. Run follows
// them.
func FromKubelet(o KubeletOptions) *Kubelet {
	k := &Kubelet{
		url: strings.TrimSuffix(o.URL, "/") + "/pods", client: o.Client, token: o.TokenFile, dir: o.Dir, every: o.Poll, log: o.Log,
		changed: make(chan struct{}, 1),
	}
	if k.client == nil {
		k.client = http.DefaultClient
	}
	if k.every <= 0 {
		k.every = DefaultPoll
	}
	if k.log == nil {
		k.log = slog.New(slog.DiscardHandler)
	}
	return k
}

// Run asks the kubelet again and again until ctx ends. It returns nil.
func (k *Kubelet) Run(ctx context.Context) error {
	t := time.NewTicker(k.every)
	defer t.Stop()
	told := false
	for {
		_, err := k.Pods(ctx, true)
		if err != nil && ctx.Err() == nil && !told {
			k.log.Warn("cannot read pods from the kubelet", "error", err)
		}
		told = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Changed has a value after a pod has come, changed or gone.
func (k *Kubelet) Changed() <-chan struct{} { return k.changed }

// Pod returns the pod of a UID, or nil. It is an error if all that is known of the
// pod is its folder.
func (k *Kubelet) Pod(ctx context.Context, uid string, fresh bool) (*v1.Pod, error) {
	pods, err := k.Pods(ctx, fresh)
	pod := find(pods, uid)
	if pod != nil && pod.Name == "" {
		return nil, fmt.Errorf("the kubelet has a directory of pod %s but does not list it: it has just started, or the pod is terminating", uid)
	}
	return pod, err
}

// Pods returns all pods that the kubelet runs or has run and not forgotten. Of
// those that it does not list but has folders of, there is the UID alone.
func (k *Kubelet) Pods(ctx context.Context, fresh bool) ([]*v1.Pod, error) {
	k.mu.Lock()
	pods, seen := k.pods, k.seen
	k.mu.Unlock()
	if seen && !fresh {
		return pods, nil
	}
	raw, err := k.get(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet for its pods: %w", err)
	}
	var list v1.PodList
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("ask the kubelet for its pods: read %s: %w", k.url, err)
	}
	out := make([]*v1.Pod, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, trim(&list.Items[i]))
	}
	out = append(out, k.unlisted(out)...)
	k.note(out)
	return out, nil
}

// unlisted returns pods that have a folder and are not among those that are listed.
func (k *Kubelet) unlisted(listed []*v1.Pod) []*v1.Pod {
	if k.dir == "" {
		return nil
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.log.Warn("cannot read the kubelet's pod directories", "error", err)
	}
	var out []*v1.Pod
	for _, e := range entries {
		if e.IsDir() && find(listed, e.Name()) == nil {
			out = append(out, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(e.Name())}})
		}
	}
	return out
}

// note keeps what the kubelet said, and tells whether it is something new.
func (k *Kubelet) note(pods []*v1.Pod) {
	var b strings.Builder
	for _, p := range pods {
		fmt.Fprintln(&b, p.UID, p.Status.Phase, p.ResourceVersion, p.Annotations[api.AnnotationDevices])
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := b.String(); !k.seen || now != k.last {
		k.last = now
		signal(k.changed)
	}
	k.pods, k.seen = pods, true
}

func (k *Kubelet) get(ctx context.Context) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if k.token != "" {
		token, err := os.ReadFile(k.token)
		if err != nil {
			return nil, err
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	raw, err := input.Read("the kubelet's list of pods", resp.Body, input.State)
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		return nil, fmt.Errorf("%s: %s; the agent's identity needs nodes/proxy, or nodes/pods from Kubernetes 1.33 on", k.url, resp.Status)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: %s", k.url, resp.Status)
	}
	return raw, nil
}
