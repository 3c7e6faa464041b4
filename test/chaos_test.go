package test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"berth.dev/berth/test/soak"
)

// The load of TestChaos. There is room for 48*8*4 of the pods at a time, and there
// are more of them.
var (
	chaosPods   = soak.Pick(2_000, 10_000)
	chaosFaults = soak.Pick(10, 40)
)

const chaosShares = 4 // of 9 GiB, on a GPU of 40

// The lease of the schedulers. A slow machine must be able to renew it, or nobody
// leads for long.
const (
	lease = 8 * time.Second
	renew = 6 * time.Second
)

// TestChaos makes thousands of pods at once that ask for a share of a GPU, while two
// scheduler processes, of which one leads, are killed, stopped and held up for longer than
// their lease, ended and cut off from the API server, which is killed itself;
// while nodes vanish, GPUs fail, pods are deleted, and somebody else binds some
// of them. The judge finds no device over-committed in any event of the API, nor
// given out twice by a node; and in the end all that fits runs.
//
// The same faults without processes, in other orders and by the thousand, are in
// TestStorm of scheduler/devices.
//
// rows: GS-02
func TestChaos(t *testing.T) {
	seed := seedOf(t)
	dir := filepath.Join(t.TempDir(), "d")
	purgeAtEnd(t, dir)
	c := &chaos{
		t: t, dir: dir, chance: rand.New(rand.NewPCG(seed, 0)),
		foreign: map[string]bool{}, vanished: map[string]bool{}, removed: map[string]bool{},
	}
	c.pid, c.client = startPlane(t, dir, c.flags()...)
	c.judge = newJudge(t, c.client, c.excuses)
	for range 2 {
		c.members = append(c.members, newMember(t, dir))
	}
	await(t, "a scheduler leads", c.led)

	began := time.Now()
	var makers sync.WaitGroup
	for w := range 4 {
		makers.Go(func() {
			for i := w; i < chaosPods; i += 4 {
				c.create(i)
			}
		})
	}
	await(t, "some pods run", func() bool { return c.judge.count(running) >= 50 })
	for range chaosFaults {
		c.fault()
		c.judge.check(t)
		time.Sleep(time.Duration(c.chance.IntN(1000)) * time.Millisecond) // the load goes on
	}
	makers.Wait()
	t.Logf("all are made after %v, and %d run", time.Since(began).Round(time.Second), c.judge.count(c.runs))
	c.heal()
	await(t, "all that fits runs", func() bool {
		c.judge.check(t)
		return c.judge.count(c.runs) == c.room()
	})
	checkHolders(t, c.api(), filepath.Join(dir, "kubeconfig"))
	t.Logf("all that fits runs after %v; %d faults: %v", time.Since(began).Round(time.Second), len(c.did), c.did)
}

// chaos is a control plane with two schedulers beside it.
type chaos struct {
	t       *testing.T
	dir     string
	chance  *rand.Rand
	judge   *judge
	members []*member
	pid     int
	did     []string

	mu       sync.Mutex
	client   kubernetes.Interface
	foreign  map[string]bool // pods that somebody else may have bound, by name
	vanished map[string]bool // nodes that are not there
	removed  map[string]bool // nodes that were not there at some time
}

func (c *chaos) flags() []string {
	return []string{"--fleet", "fleets/chaos.yaml", "--scheduler", "none"}
}

// api is the client of the API server as it runs now.
func (c *chaos) api() kubernetes.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// excuses reports whether a pod may fail, or be without devices: somebody bound it
// who knows nothing of devices, its GPU has failed before it came, or its node
// was removed.
func (c *chaos) excuses(p *v1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, committed := p.Annotations["berth.dev/devices"]
	return !committed && c.foreign[p.Name] || c.removed[p.Spec.NodeName] || strings.Contains(p.Status.Message, "is unhealthy")
}

// create makes a pod, again and again until it is there.
func (c *chaos) create(i int) {
	pod := asking(fmt.Sprint("share-", i), "nvidia.com/gpu-memory", 9)
	pod.Annotations = map[string]string{userNote: fmt.Sprint("user-", i%7)}
	for c.t.Context().Err() == nil {
		_, err := c.api().CoreV1().Pods("default").Create(c.t.Context(), pod, metav1.CreateOptions{})
		if err == nil || strings.Contains(err.Error(), "already exists") {
			return
		}
		time.Sleep(50 * time.Millisecond) // the API server is away
	}
}

// led reports whether a scheduler holds the lease.
func (c *chaos) led() bool { return leading(c.t.Context(), c.api()) != "" }

// leading returns which scheduler holds the lease; "" is none, or that it cannot be read.
func leading(ctx context.Context, client kubernetes.Interface) string {
	l, err := client.CoordinationV1().Leases("kube-system").Get(ctx, "berth-scheduler", metav1.GetOptions{})
	if err != nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// fault does one thing that goes wrong in clusters. Those that take the longest
// to recover from come at fixed places.
func (c *chaos) fault() {
	m := c.members[c.chance.IntN(len(c.members))]
	n := c.chance.IntN(12)
	switch len(c.did) {
	case chaosFaults / 3, chaosFaults * 2 / 3:
		n = -1
	case chaosFaults / 4:
		n = -2
	case chaosFaults / 2:
		n = -3
	}
	switch {
	case n == -1:
		c.killPlane()
	case n == -2:
		c.did = append(c.did, "stop")
		m.stop(c.chance.IntN(4))
	case n == -3:
		c.did = append(c.did, "hold up")
		release := m.proxy.hold()
		time.Sleep(lease + time.Duration(c.chance.IntN(4))*time.Second)
		release()
	case n < 2:
		c.did = append(c.did, "kill")
		m.signal(syscall.SIGKILL)
	case n < 3:
		c.did = append(c.did, "end")
		m.signal(syscall.SIGTERM)
	case n < 6:
		c.did = append(c.did, "cut")
		m.proxy.cut()
	case n < 8:
		c.sicken()
	case n < 9:
		c.vanish()
	case n < 10:
		c.bindForeign()
	default:
		c.delete()
	}
}

// killPlane kills the control plane, and starts it again.
func (c *chaos) killPlane() {
	c.did = append(c.did, "kill the API server")
	if err := syscall.Kill(c.pid, syscall.SIGKILL); err != nil {
		c.t.Fatal(err)
	}
	pid, client := startPlane(c.t, c.dir, c.flags()...)
	c.mu.Lock()
	c.pid, c.client = pid, client
	clear(c.vanished) // they come back with a start
	c.mu.Unlock()
	c.judge.use(client)
	for _, m := range c.members {
		m.proxy.aim(c.t, filepath.Join(c.dir, "kubeconfig"))
	}
}

// sicken lets a GPU of a node fail, and heals what was broken on that node.
func (c *chaos) sicken() {
	c.did = append(c.did, "Xid")
	_ = c.note(fmt.Sprint("node-", 1+c.chance.IntN(48)), fmt.Sprintf(`["xid-79/%d"]`, c.chance.IntN(8))) // it may have vanished
}

// note writes the faults of a node.
func (c *chaos) note(node, faults string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"berth.dev/faults":%q}}}`, faults)
	_, err := c.api().CoreV1().Nodes().Patch(c.t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	return err
}

// vanish deletes a node. It comes back when the control plane is started anew.
func (c *chaos) vanish() {
	c.did = append(c.did, "vanish")
	node := fmt.Sprint("node-", 1+c.chance.IntN(48))
	c.mu.Lock()
	c.vanished[node], c.removed[node] = true, true
	c.mu.Unlock()
	_ = c.api().CoreV1().Nodes().Delete(c.t.Context(), node, metav1.DeleteOptions{}) // it may be gone already
}

// bindForeign binds pods that wait, as somebody who knows nothing of devices.
func (c *chaos) bindForeign() {
	c.did = append(c.did, "conflict")
	for range 20 {
		name := fmt.Sprint("share-", c.chance.IntN(chaosPods))
		c.mu.Lock()
		c.foreign[name] = true
		c.mu.Unlock()
		_ = c.api().CoreV1().Pods("default").Bind(c.t.Context(), &v1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Target: v1.ObjectReference{Kind: "Node", Name: fmt.Sprint("node-", 1+c.chance.IntN(48))},
		}, metav1.CreateOptions{}) // refused where it is not there yet, or is bound
	}
}

// delete deletes pods, some with grace and some by force.
func (c *chaos) delete() {
	c.did = append(c.did, "delete")
	for range 30 {
		grace := int64(c.chance.IntN(2))
		_ = c.api().CoreV1().Pods("default").Delete(c.t.Context(), fmt.Sprint("share-", c.chance.IntN(chaosPods)), metav1.DeleteOptions{GracePeriodSeconds: &grace})
	}
}

// heal ends all faults but those of nodes that are gone.
func (c *chaos) heal() {
	for i := range 48 {
		await(c.t, "a node is healed or gone", func() bool {
			err := c.note(fmt.Sprint("node-", 1+i), "[]")
			return err == nil || apierrors.IsNotFound(err)
		})
	}
}

// runs reports whether a pod runs on a node that is there.
func (c *chaos) runs(p *v1.Pod) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return running(p) && !c.vanished[p.Spec.NodeName]
}

// room is how many pods the nodes that are there have room for.
func (c *chaos) room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (48 - len(c.vanished)) * 8 * chaosShares
}

// member is a scheduler process that is started again whenever it ends, as a
// Deployment would.
type member struct {
	proxy *proxy
	mu    sync.Mutex
	cmd   *exec.Cmd
	log   *os.File
}

func newMember(t *testing.T, dir string, flags ...string) *member {
	t.Helper()
	m := &member{}
	p, through := newProxy(t, filepath.Join(dir, "kubeconfig"), t.TempDir())
	m.proxy = p
	var err error
	if m.log, err = os.Create(through + ".log"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	t.Cleanup(func() {
		stop() // kills it, also where it was started a moment ago, or stands still
		<-done
		if t.Failed() {
			t.Logf("a scheduler said: %s", tail(m.log.Name()))
		}
		_ = m.log.Close()
	})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			m.run(ctx, through, flags...)
			select { // not in a hot loop while the API server is away
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	return m
}

// run runs a process until it ends, or ctx does.
func (m *member) run(ctx context.Context, kubeconfig string, flags ...string) {
	args := append([]string{
		"scheduler", "--kubeconfig", kubeconfig, "--metrics-addr", "",
		"--scheduler-name", "default-scheduler,berth-scheduler", "--user-speaker", "berth:admin", // who may name users, as in berth up
		"--leader-elect-lease-duration", lease.String(), "--leader-elect-renew-deadline", renew.String(), "--leader-elect-retry-period", "500ms",
	}, flags...)
	cmd := exec.CommandContext(ctx, program("berth"), args...)
	cmd.Stdout, cmd.Stderr = m.log, m.log
	if cmd.Start() != nil {
		return
	}
	m.mu.Lock()
	m.cmd = cmd
	m.mu.Unlock()
	_ = cmd.Wait() // it was killed, or has lost its lease
}

// signal sends a signal to the process, if one runs.
func (m *member) signal(s syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cmd != nil {
		_ = m.cmd.Process.Signal(s) // it may have ended by itself
	}
}

// stop stops the process for longer than its lease, by some seconds, and lets it go
// on: if it led, it wakes up with pods to bind and a lease that has run out.
func (m *member) stop(seconds int) {
	m.signal(syscall.SIGSTOP)
	time.Sleep(lease + time.Duration(seconds)*time.Second)
	m.signal(syscall.SIGCONT)
}

// tail is the end of a file.
func tail(path string) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-4000):])
}
