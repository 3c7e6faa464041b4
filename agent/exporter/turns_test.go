package exporter_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/agent/exporter"
	"berth.dev/berth/agent/nvml"
)

func TestScrapesOfOneSecondReadTheDriverOnce(t *testing.T) {
	r := newRig(t, 1)
	reads := 0
	samples := r.sources.Samples
	r.sources.Samples = func(ctx context.Context) ([]nvml.Sample, error) { reads++; return samples(ctx) }
	r.options.MinAge = 0
	synctest.Test(t, func(t *testing.T) {
		c := exporter.NewCollector(r.sources, r.options)
		for range 3 {
			for range 5 {
				if _, err := c.Scrape(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second) // of the bubble's clock
		}
	})
	if reads != 3 {
		t.Errorf("15 scrapes in three seconds read the driver %d times, want 3", reads)
	}
}

func TestADriverThatHangsHoldsNobodyForLong(t *testing.T) {
	r := newRig(t, 1)
	r.sources.Samples = func(ctx context.Context) ([]nvml.Sample, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.sources.Kubelet = func(ctx context.Context, _ nvml.Snapshot) ([]exporter.Holder, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	r.options.Patience = 0
	synctest.Test(t, func(t *testing.T) {
		c := exporter.NewCollector(r.sources, r.options)
		begun := time.Now()
		first := make(chan string, 1)
		go func() {
			text, err := c.Scrape(t.Context())
			if err != nil {
				t.Error(err)
			}
			first <- string(text)
		}()
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Scrape(short); err == nil || err.Error() != "wait for the scrape before: context deadline exceeded" {
			t.Errorf("a scrape beside it = %v", err)
		}
		text := <-first
		if took := time.Since(begun); took != 8*time.Second || !strings.Contains(text, "\nberth_nvml_up 0\n") {
			t.Errorf("after %v, want 8 s\n%s", took, text)
		}
	})
}
