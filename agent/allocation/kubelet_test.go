package allocation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	cdiread "tags.cncf.io/container-device-interface/pkg/cdi"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// admit does what the kubelet does when a pod comes: it chooses IDs at random
// among those that it counts as free and healthy, those of init containers
// again, and writes its checkpoint.
func (w *world) admit(p *v1.Pod, picks ...string) error {
	w.t.Helper()
	w.pods.put(p, true)
	return w.admitOnly(p, picks...)
}

func (w *world) admitOnly(p *v1.Pod, picks ...string) error {
	var reuse []string // "resource id"
	for i, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		init := i < len(p.Spec.InitContainers) && c.RestartPolicy == nil
		for _, name := range slices.Sorted(maps.Keys(c.Resources.Limits)) {
			q := c.Resources.Limits[name]
			got, err := w.choose(string(name), int(q.Value()), reuse, picks)
			if err != nil {
				w.forget(string(p.UID))
				return err
			}
			out, err := w.node.Allocate(context.Background(), string(name), [][]string{got})
			if err != nil {
				w.forget(string(p.UID))
				return err
			}
			w.held[held{string(p.UID), c.Name, string(name)}] = answer{got, out.ContainerResponses[0]}
			for _, t := range got {
				key := string(name) + " " + t
				if reuse = slices.DeleteFunc(reuse, func(r string) bool { return r == key }); init {
					reuse = append(reuse, key)
				}
			}
		}
	}
	w.checkpoint()
	return nil
}

func (w *world) choose(resource string, n int, reuse, picks []string) ([]string, error) {
	used := map[string]bool{}
	for h, a := range w.held {
		for _, t := range a.ids {
			used[t] = used[t] || h.resource == resource
		}
	}
	var free, got []string
	for _, d := range w.node.Offers()[resource] {
		if d.Healthy && !used[d.ID] {
			free = append(free, d.ID)
		}
	}
	w.rng.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	for _, r := range reuse {
		if t, ok := strings.CutPrefix(r, resource+" "); ok && len(got) < n {
			got = append(got, t)
		}
	}
	for _, t := range slices.Concat(picks, free) {
		if len(got) < n && slices.Contains(free, t) && !slices.Contains(got, t) {
			got = append(got, t)
		}
	}
	if len(got) < n {
		return nil, fmt.Errorf("requested number of devices unavailable for %s. Requested: %d, Available: %d", resource, n, len(free))
	}
	return got, nil
}

func (w *world) forget(uid string) {
	maps.DeleteFunc(w.held, func(h held, _ answer) bool { return h.pod == uid })
	w.checkpoint()
}

// checkpoint writes the kubelet's record.
func (w *world) checkpoint() {
	type item struct {
		PodUID, ContainerName, ResourceName string
		DeviceIDs                           map[string][]string
		AllocResp                           []byte
	}
	items := []item{}
	for h, a := range w.held {
		raw, err := proto.Marshal(a.resp)
		if err != nil {
			w.t.Fatal(err)
		}
		items = append(items, item{h.pod, h.container, h.resource, map[string][]string{"-1": a.ids}, raw})
	}
	raw, err := json.Marshal(map[string]any{"Data": map[string]any{"PodDeviceEntries": items, "RegisteredDevices": nil}, "Checksum": 1})
	if err != nil {
		w.t.Fatal(err)
	}
	path := filepath.Join(w.devices, "kubelet_internal_checkpoint")
	if err := os.WriteFile(path+".tmp", raw, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		w.t.Fatal(err)
	}
}

// run starts a container: the kubelet's call for each of its resources. It
// returns the GPUs that the container sees, by their device nodes: "2 3".
func (w *world) run(p *v1.Pod, container string) (string, error) {
	w.t.Helper()
	for _, h := range w.of(p, container) {
		if err := w.node.PreStart(context.Background(), h.resource, w.held[h].ids); err != nil {
			return "", err
		}
	}
	nodes, _, err := w.sees(p, container)
	return nodes, err
}

func (w *world) of(p *v1.Pod, container string) []held {
	var out []held
	for h := range w.held {
		if h.pod == string(p.UID) && h.container == container {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b held) int { return cmp.Compare(a.resource, b.resource) })
	return out
}

// sees is what the container runtime makes of a container: by CDI's own code.
func (w *world) sees(p *v1.Pod, container string) (gpus string, env map[string]string, err error) {
	w.t.Helper()
	cache, err := cdiread.NewCache(cdiread.WithSpecDirs(w.dir), cdiread.WithAutoRefresh(false))
	if err != nil {
		return "", nil, err
	}
	for path, errs := range cache.GetErrors() {
		return "", nil, fmt.Errorf("%s: %v", path, errs)
	}
	env = map[string]string{}
	var seen []string
	for _, h := range w.of(p, container) {
		resp := w.held[h].resp
		maps.Copy(env, resp.Envs)
		var names []string
		for _, d := range resp.CdiDevices {
			names = append(names, d.Name)
		}
		for key, value := range resp.Annotations {
			if strings.HasPrefix(key, "cdi.k8s.io/") {
				names = append(names, strings.Split(value, ",")...)
			}
		}
		for _, d := range resp.Devices {
			seen = append(seen, strings.TrimPrefix(d.HostPath, "/dev/nvidia"))
		}
		for _, name := range names {
			d := cache.GetDevice(name)
			if d == nil {
				return "", nil, fmt.Errorf("unresolvable CDI devices %s", name)
			}
			for _, e := range []cdi.ContainerEdits{d.GetSpec().ContainerEdits, d.ContainerEdits} {
				for _, text := range e.Env {
					k, v, _ := strings.Cut(text, "=")
					env[k] = v
				}
				for _, n := range e.DeviceNodes {
					seen = append(seen, strings.TrimPrefix(n.Path, "/dev/nvidia"))
				}
			}
		}
	}
	seen = slices.DeleteFunc(seen, func(s string) bool { return s == "ctl" })
	slices.Sort(seen)
	return strings.Join(slices.Compact(seen), " "), env, nil
}
