//go:build hardware && cgo && linux

package hardware_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"berth.dev/berth/cmd/berth-nvml/hardware"
)

// collectors are the fields that both exporters are asked for, where we start both.
const collectors = `DCGM_FI_DEV_SM_CLOCK, gauge, SM clock
DCGM_FI_DEV_MEM_CLOCK, gauge, memory clock
DCGM_FI_DEV_GPU_TEMP, gauge, temperature
DCGM_FI_DEV_MEMORY_TEMP, gauge, memory temperature
DCGM_FI_DEV_POWER_USAGE, gauge, power
DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, counter, energy
DCGM_FI_DEV_GPU_UTIL, gauge, utilization
DCGM_FI_DEV_MEM_COPY_UTIL, gauge, memory utilization
DCGM_FI_DEV_ENC_UTIL, gauge, encoder
DCGM_FI_DEV_DEC_UTIL, gauge, decoder
DCGM_FI_DEV_FB_FREE, gauge, memory free
DCGM_FI_DEV_FB_USED, gauge, memory used
DCGM_FI_DEV_FB_RESERVED, gauge, memory reserved
DCGM_FI_DEV_ECC_SBE_VOL_TOTAL, counter, single-bit errors
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, counter, double-bit errors
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS, counter, remapped rows
DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS, counter, remapped rows
DCGM_FI_DEV_ROW_REMAP_FAILURE, gauge, failed remapping
DCGM_FI_DEV_PCIE_REPLAY_COUNTER, counter, PCIe retries
`

// TestDCGM holds our exporter beside dcgm-exporter: the one that serves at BERTH_DCGM, or
// the program on the PATH.
func TestDCGM(t *testing.T) {
	url := os.Getenv("BERTH_DCGM")
	its, err := exec.LookPath("dcgm-exporter")
	if url == "" && err != nil {
		t.Skip("not run: there is no dcgm-exporter on the PATH, and BERTH_DCGM names no address of one, such as http://127.0.0.1:9400/metrics")
	}
	agent := os.Getenv("BERTH_AGENT")
	if _, err := os.Stat(agent); err != nil {
		t.Skipf("not run: our exporter is not built: BERTH_AGENT: %v", err)
	}
	dir := t.TempDir()
	csv := filepath.Join(dir, "collectors.csv")
	if err := os.WriteFile(csv, []byte(collectors), 0o644); err != nil {
		t.Fatal(err)
	}
	ourAddress := free(t)
	ours := serves(t, "http://"+ourAddress+"/metrics", agent, "--observe", "--pods", "kubelet", "--kubelet-url", "https://127.0.0.1:1", "--kubelet-dir", dir, "--node-name", "hardware",
		"--listen", ourAddress, "--metrics-file", csv, "--nvml-program", program(t), "--fail-on-init-error=true")
	if url == "" {
		address := free(t)
		url = "http://" + address + "/metrics"
		serves(t, url, its, "--address", address, "--collectors", csv, "--collect-interval", "1000")
	}
	// An exporter may answer before it has read the GPUs.
	var dcgm hardware.Scrape
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if ours, dcgm = scrape(t, "http://"+ourAddress+"/metrics"), scrape(t, url); len(ours) > 0 && len(dcgm) > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no fields of GPUs within a minute: %d of ours, %d of dcgm-exporter", len(ours), len(dcgm))
		}
	}
	c := hardware.Compare(ours, dcgm)
	t.Logf("%d fields are the same: %v", len(c.Equal), c.Equal)
	t.Logf("only ours: %v", c.OnlyOurs)
	t.Logf("only dcgm-exporter: %v", c.OnlyDCGM)
	for _, d := range c.Different {
		t.Error(d)
	}
	if len(c.Equal) == 0 {
		t.Error("there is no field that both serve alike")
	}
}

// free returns an address on loopback that nothing serves.
func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serves starts an exporter, which ends with the test, and waits until it answers.
func serves(t *testing.T, url string, args ...string) hardware.Scrape {
	t.Helper()
	var said bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", args[0], err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		s, err := get(t.Context(), url)
		if err == nil {
			return s
		}
		select {
		case <-ended:
			t.Fatalf("%s has ended: %v\n%s", args[0], cmd.ProcessState, said.String())
		default:
		}
		if time.Now().After(end) {
			cancel()
			<-ended
			t.Fatalf("%s does not answer within a minute: %v\n%s", args[0], err, said.String())
		}
	}
}

func scrape(t *testing.T, url string) hardware.Scrape {
	t.Helper()
	s, err := get(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func get(ctx context.Context, url string) (hardware.Scrape, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", url, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300))
		return nil, fmt.Errorf("ask %s: %s: %s", url, response.Status, text)
	}
	return hardware.ReadScrape(response.Body)
}
