package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/fetch"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/internal/listen"
	"berth.dev/berth/internal/pause"
)

const (
	// mostModel bounds a model that is really downloaded, in bytes.
	mostModel = 1 << 30
	// mostMessage is how much a kubelet keeps of what a container leaves as its message, in bytes.
	mostMessage = 4096
	// downloaded begins the message of an init container that has downloaded a model. After that line it has the files, one a line: they
	// are what the fleet knows of the model after a restart.
	downloaded = "downloaded "
)

// download is an init container that downloads a model, and its result. A source on this machine's loopback network is really read; for
// all others nothing leaves the process.
type download struct {
	cancel context.CancelFunc

	mu    sync.Mutex
	ended bool
	at    time.Time
	code  int32
	lines []string // of the log
	words string   // the message of the container
}

// result returns how it ended; ok is false while it runs.
func (d *download) result() (at time.Time, code int32, lines []string, words string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.at, d.code, slices.Clone(d.lines), d.words, d.ended
}

func (d *download) say(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, line)
}

func (d *download) end(at time.Time, code int32, words string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended, d.at, d.code, d.words = true, at, code, words
}

// downloads reports whether an init container downloads the model of an InferenceService, and from where.
func downloads(pod *v1.Pod, c *v1.Container) (src string, ok bool) {
	if pod.Labels[api.LabelInferenceService] == "" || c.Name != "storage-initializer" || len(c.Args) == 0 || !initContainer(pod, c.Name) {
		return "", false
	}
	return c.Args[0], true
}

// download starts the download of an init container that has just begun, unless the annotation berth.dev/simulate says how it ends.
func (p *pod) download(c *container) {
	c.download = nil
	src, ok := downloads(p.api, c.spec)
	f := p.node.fleet
	if s, err := parseSimulation(p.api.Annotations[api.AnnotationSimulate], c.spec.Name); !ok || f.models == "" || err != nil || s.duration != nil || s.exitCode != nil {
		return
	}
	ctx, cancel := context.WithCancel(f.running)
	d := &download{cancel: cancel}
	c.download, c.plan = d, Plan{Forever: true}
	api, name := p.api, c.spec.Name
	f.tasks.Go(func() {
		defer cancel()
		code, words := f.downloadModel(ctx, d, src, api, name)
		d.end(f.now(), code, words)
		f.queue.Add(p)
	})
}

// modelFolder is where a pod's model is while it is downloaded.
func (f *Fleet) modelFolder(pod *v1.Pod) string { return filepath.Join(f.models, string(pod.UID)) }

// downloadModel downloads a model, or plays that it does, and returns the exit code and the message of the container.
func (f *Fleet) downloadModel(ctx context.Context, d *download, src string, pod *v1.Pod, container string) (code int32, words string) {
	env := map[string]string{}
	for _, kv := range f.environ(pod, &kubelet.Container{Name: container}) {
		key, value, _ := strings.Cut(kv, "=")
		env[key] = value
	}
	if !onLoopback(src, env) {
		d.say("berth: this download is simulated: nothing is read from " + src)
		pause.For(ctx, initDuration)
		return 0, ""
	}
	dir := f.modelFolder(pod)
	got, err := fetch.Fetch(ctx, src, dir, fetch.Options{
		Getenv: func(key string) string { return env[key] }, Transport: loopbackTransport(), MostBytes: mostModel, Log: d.say,
	})
	if err != nil {
		d.say("error: " + err.Error())
		return 1, message(err.Error())
	}
	_ = os.RemoveAll(dir) // the names of the files are enough
	line := fmt.Sprintf("%s%d files, %d bytes, from %s:", downloaded, len(got.Files), got.Bytes, src)
	d.say(line)
	return 0, message(line + "\n" + strings.Join(got.Files, "\n"))
}

// message is what of a text a kubelet keeps, in whole lines if there are several.
func message(text string) string {
	if len(text) <= mostMessage {
		return text
	}
	text = strings.ToValidUTF8(text[:mostMessage], "")
	if i := strings.LastIndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	return text
}

// onLoopback reports whether a model is at a server of this machine's loopback network.
func onLoopback(src string, env map[string]string) bool {
	scheme, _, _ := strings.Cut(src, "://")
	at := map[string]string{"http": src, "https": src, "s3": env["AWS_ENDPOINT_URL"], "gs": env["STORAGE_EMULATOR_HOST"], "hf": env["HF_ENDPOINT"]}[scheme]
	if at == "" {
		return false
	}
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	return listen.Local(u.Hostname())
}

// errBeyond is a redirect to another machine.
var errBeyond = errors.New("the simulated nodes reach no other machine")

// loopbackTransport reaches this machine alone, wherever names and redirects lead.
func loopbackTransport() http.RoundTripper {
	dial := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		host, _, err := net.SplitHostPort(address)
		if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
			return errBeyond
		}
		return nil
	}}
	return &http.Transport{DialContext: dial.DialContext, DisableCompression: true, DisableKeepAlives: true, ResponseHeaderTimeout: time.Minute}
}

// followDownload ends an init container whose download has ended.
func (p *pod) followDownload(c *container) {
	at, code, lines, words, ok := c.download.result()
	if !ok {
		return
	}
	c.download = nil
	p.end(c, at, code, "", words)
	c.plan = said(lines, at.Sub(c.begun), code)
}

// said is the plan of a run that has printed these lines.
func said(lines []string, took time.Duration, code int32) Plan {
	plan := Plan{Duration: max(took, 0), ExitCode: code, Idle: true}
	for _, line := range lines {
		plan.Steps = append(plan.Steps, Step{Text: line})
	}
	return plan
}

// recalled is the plan of a download that has ended, by the message that it left; ok is false if it left none.
func (c *container) recalled() (Plan, bool) {
	t := c.state.Terminated
	if t == nil {
		t = c.last.Terminated
	}
	if t == nil || t.Message == "" {
		return Plan{}, false
	}
	return said(strings.Split(t.Message, "\n"), t.FinishedAt.Sub(t.StartedAt.Time), t.ExitCode), true
}

// modelFiles returns the files that a pod has downloaded; known is false if it has really downloaded none.
func (p *pod) modelFiles() (list []string, known bool) {
	for _, c := range p.of(roleInit) {
		if _, ok := downloads(p.api, c.spec); ok && c.done() {
			if lines := strings.Split(c.state.Terminated.Message, "\n"); strings.HasPrefix(lines[0], downloaded) {
				return lines[1:], true
			}
		}
	}
	return nil, false
}

// lostDownload ends a download that a restart of the fleet has ended; it starts again at once.
func (p *pod) lostDownload(c *container) {
	if _, ok := downloads(p.api, c.spec); ok && p.node.fleet.models != "" {
		now := p.node.fleet.now()
		p.end(c, now, lostCode, lostReason, "berth up ended, and the download with it")
		c.crashes, c.retry = 0, now
	}
}
