package settings_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/agent/settings"
)

// watch starts a Watch, and gives a func that waits for the next choice.
func watch(t *testing.T, o settings.Options) func() settings.Choice {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	choices := settings.Watch(ctx, o)
	t.Cleanup(func() {
		cancel()
		for range choices { // until all has ended
		}
	})
	return func() settings.Choice {
		t.Helper()
		select {
		case c := <-choices:
			return c
		case <-time.After(2 * time.Minute):
			t.Fatal("no choice came")
			return settings.Choice{}
		}
	}
}

func replicas(t *testing.T, c settings.Choice, want int) {
	t.Helper()
	if c.Err != nil || !c.InForce || c.Replicas["nvidia.com/gpu"] != want {
		t.Fatalf("choice: %d replicas from %s, %v; want %d", c.Replicas["nvidia.com/gpu"], c.Source, c.Err, want)
	}
}

// NVIDIA/gpu-operator#1144: replicas changed in the ConfigMap under the same
// key were applied only once the plugin's pod was restarted.
func TestWatchAppliesNewContentUnderTheSameKey(t *testing.T) {
	f := newFolder(t, map[string]string{"any": shared})
	next := watch(t, settings.Options{Dir: f.path, Fallbacks: []string{"single"}})
	replicas(t, next(), 4)
	f.update(map[string]string{"any": strings.Replace(shared, "4", "8", 1)})
	replicas(t, next(), 8)
}

// NVIDIA/gpu-operator#412: with several configurations in one ConfigMap the
// plugin kept the old one, or halted where one was missing. A node changes from
// one to the other by its label; one that is missing changes nothing.
func TestWatchFollowsTheLabel(t *testing.T) {
	f := newFolder(t, map[string]string{"whole": whole, "shared": shared})
	labels := make(chan string, 1)
	next := watch(t, settings.Options{Dir: f.path, Default: "whole", Label: labels})
	labels <- "shared"
	replicas(t, next(), 4)
	labels <- "" // removed: the default
	replicas(t, next(), 0)
	labels <- "shared"
	replicas(t, next(), 4)

	labels <- "shred" // a slip keeps what is in force
	c := next()
	if c.Err == nil || !c.InForce || c.Replicas["nvidia.com/gpu"] != 4 ||
		!strings.HasPrefix(c.Err.Error(), "specified config shred does not exist") ||
		!strings.HasSuffix(c.Err.Error(), filepath.Join(f.path, "shared")+" stays active") {
		t.Fatalf("choice: %+v", c)
	}
	// The file that was missing comes.
	f.update(map[string]string{"whole": whole, "shared": shared, "shred": mixed})
	if c := next(); c.Err != nil || c.MIGStrategy != "mixed" {
		t.Fatalf("choice: %+v", c)
	}
}

func TestWatchKeepsGoodSettingsBesideABadFile(t *testing.T) {
	f := newFolder(t, map[string]string{"any": shared})
	next := watch(t, settings.Options{Dir: f.path, Fallbacks: []string{"single"}})
	replicas(t, next(), 4)
	f.update(map[string]string{"any": "version: v1\nsharing:\n  timeSlicing: {replicas: 8}\n"})
	c := next()
	path := filepath.Join(f.path, "any")
	want := path + ":3: sharing.timeSlicing.replicas: no resources specified: replicas is a field of each resource, and alone it shares nothing; " +
		"write timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 8}]}; " + path + " stays active"
	if c.Err == nil || c.Err.Error() != want || !c.InForce || c.Replicas["nvidia.com/gpu"] != 4 {
		t.Fatalf("choice: %v, want %s", c.Err, want)
	}
	f.update(map[string]string{"any": strings.Replace(shared, "4", "8", 1)})
	replicas(t, next(), 8)
}

// NVIDIA's static manifest has no ConfigMap, and `helm uninstall` deletes the chart's
// under the pods that share GPUs by it.
func TestWatchOfAConfigMapThatComesAndGoes(t *testing.T) {
	f := newFolder(t, nil)
	next := watch(t, settings.Options{Dir: f.path, Fallbacks: []string{"named", "single"}})
	replicas(t, next(), 0)
	f.update(map[string]string{"any": shared})
	replicas(t, next(), 4)
	f.update(nil)
	c := next()
	want := f.path + " has no files any longer; restore the ConfigMap, or restart the agent to run without it; " + filepath.Join(f.path, "any") + " stays active"
	if c.Err == nil || c.Err.Error() != want || !c.InForce || c.Replicas["nvidia.com/gpu"] != 4 {
		t.Fatalf("choice: %v, want %s", c.Err, want)
	}
	f.update(map[string]string{"any": strings.Replace(shared, "4", "8", 1)})
	replicas(t, next(), 8)
}

// A fallback that was asked for is taken at any time.
func TestWatchGoesBackToDefaultsWhereThatIsAskedFor(t *testing.T) {
	f := newFolder(t, map[string]string{"any": shared})
	next := watch(t, settings.Options{Dir: f.path, Fallbacks: []string{"single", "empty"}})
	replicas(t, next(), 4)
	f.update(nil)
	if c := next(); c.Err != nil || !c.InForce || c.Replicas["nvidia.com/gpu"] != 0 || c.Source != "flags and environment" {
		t.Fatalf("choice: %+v", c)
	}
}

func TestWatchOffersNothingBeforeTheFirstGoodFile(t *testing.T) {
	f := newFolder(t, map[string]string{"any": "version: v2\n"})
	next := watch(t, settings.Options{Dir: f.path, Fallbacks: []string{"single"}})
	if c := next(); c.InForce || c.Err == nil || len(c.Plugin.DeviceListStrategy) > 0 {
		t.Fatalf("choice: %+v", c)
	}
	f.update(map[string]string{"any": shared})
	replicas(t, next(), 4)
}

// One file by a link, as NVIDIA's config manager leaves it: the link is turned,
// or what it leads to changes.
func TestWatchOfOneFileFollowsLinks(t *testing.T) {
	f := newFolder(t, map[string]string{"a": whole, "b": shared})
	path := filepath.Join(t.TempDir(), "config.yaml")
	f.do(os.Symlink(filepath.Join(f.path, "a"), path))
	next := watch(t, settings.Options{File: path})
	replicas(t, next(), 0)
	f.do(os.Symlink(filepath.Join(f.path, "b"), path+".new"))
	f.do(os.Rename(path+".new", path))
	replicas(t, next(), 4)
	f.update(map[string]string{"a": whole, "b": strings.Replace(shared, "4", "5", 1)})
	replicas(t, next(), 5)
}

// The volume of an optional ConfigMap, or a folder on the host, may come late.
func TestWatchWaitsForAFolder(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "etc", "berth", "config.yaml")
	next := watch(t, settings.Options{File: path})
	if c := next(); c.InForce || c.Err == nil {
		t.Fatalf("choice: %+v", c)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".tmp", []byte(shared), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".tmp", path); err != nil {
		t.Fatal(err)
	}
	replicas(t, next(), 4)
}

func TestWatchWithoutFilesGivesOneChoice(t *testing.T) {
	labels := make(chan string)
	next := watch(t, settings.Options{Label: labels}) // no folder: the label has no meaning
	if c := next(); c.Err != nil || !c.InForce || c.Source != "flags and environment" {
		t.Fatalf("choice: %+v", c)
	}
}
