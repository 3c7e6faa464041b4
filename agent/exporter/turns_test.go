package exporter_test

import (
	"context"
	"strconv"
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

// The memory of a page is used again only when nobody reads it.
func TestAPageIsNotWrittenOverWhileItIsRead(t *testing.T) {
	r := newRig(t, 2)
	c := exporter.NewCollector(r.sources, r.options)
	var read [][]byte
	var as []string
	var dones []func()
	for i := range 6 {
		r.samples[0].Reading.TemperatureCelsius = 40 + i
		text, done, err := c.Page(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), " "+strconv.Itoa(40+i)+"\n") {
			t.Errorf("page %d does not show its own temperature", i)
		}
		if i%3 == 2 { // read and done
			done()
			continue
		}
		read, as, dones = append(read, text), append(as, string(text)), append(dones, done)
	}
	for i, text := range read {
		if string(text) != as[i] {
			t.Errorf("page %d was written over while it was read", i)
		}
		dones[i]()
	}
}
