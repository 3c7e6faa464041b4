package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
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
	"berth.dev/berth/internal/input"
	"berth.dev/berth/internal/listen"
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
	data, err := input.ReadFile(t.path(checkpoint), input.State)
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

// left reports whether a socket was left behind by a process that was killed: none
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

// errGuarded says that an exporter gives its metrics to those alone who may read them.
var errGuarded = errors.New("the exporter requires authentication")

// scrape counts the series of GPUs of an exporter. One with TLS at an address for HTTP
// is asked again with it; whose certificate it has does not matter on this machine.
func scrape(ctx context.Context, url string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := get(ctx, url)
	if rest, plain := strings.CutPrefix(url, "http://"); err == nil && plain && resp.StatusCode == http.StatusBadRequest {
		_ = resp.Body.Close()
		resp, err = get(ctx, "https://"+rest)
	}
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return 0, errGuarded
	default:
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

func get(ctx context.Context, url string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("address of the exporter: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		TLSClientConfig:   &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: listen.Local(req.URL.Hostname())}, //nolint:gosec // on loopback alone
	}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask the exporter: %w", err)
	}
	return resp, nil
}
