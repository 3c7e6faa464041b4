package doctor

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"berth.dev/berth/agent/deviceplugin"
)

// kubelet reads the folder of device plugins. Sockets that begin with prefix
// are the agent's; others of NVIDIA's names are foreign.
func (t tree) kubelet(prefix string) Kubelet {
	k := Kubelet{
		Dir:          t.exists(deviceplugin.Dir),
		Socket:       t.exists(deviceplugin.Dir + "/kubelet.sock"),
		PodResources: t.exists("/var/lib/kubelet/pod-resources/kubelet.sock"),
		Registered:   map[string]int{},
		Unreadable:   map[string]error{},
	}
	for _, path := range t.glob(deviceplugin.Dir + "/*.sock") {
		name := strings.TrimPrefix(path, deviceplugin.Dir+"/")
		switch {
		case t.left(path):
		case strings.HasPrefix(name, prefix):
			k.Own = append(k.Own, name)
		case strings.HasPrefix(name, "nvidia"):
			k.Foreign = append(k.Foreign, name)
		}
	}
	checkpoint := deviceplugin.Dir + "/kubelet_internal_checkpoint"
	data, err := os.ReadFile(t.path(checkpoint))
	if err != nil {
		if !os.IsNotExist(err) {
			k.Unreadable[checkpoint] = err
		}
		return k
	}
	var c struct {
		Data struct{ RegisteredDevices map[string][]string }
	}
	if err := json.Unmarshal(data, &c); err != nil {
		k.Unreadable[checkpoint] = err
	}
	for resource, ids := range c.Data.RegisteredDevices {
		if strings.HasPrefix(resource, "nvidia.com/") {
			k.Registered[resource] = len(ids)
		}
	}
	return k
}

// left says whether a socket was left behind by a process that was killed: nobody
// listens there.
func (t tree) left(path string) bool {
	info, err := os.Lstat(t.path(path))
	if err != nil || info.Mode()&os.ModeSocket == 0 {
		return false
	}
	d := net.Dialer{Timeout: time.Second}
	c, err := d.DialContext(context.Background(), "unix", t.path(path))
	if err == nil {
		_ = c.Close() // nothing was said
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}

// scrape counts the series of GPUs that an exporter gives.
func scrape(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, fmt.Errorf("address of the exporter: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ask the exporter: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s answers %s", url, resp.Status)
	}
	n := 0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "DCGM_FI_") {
			n++
		}
	}
	return n, nil
}
