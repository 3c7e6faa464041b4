package agent

import (
	"os"
	"path/filepath"
	"testing"

	"berth.dev/berth/agent/config"
	"berth.dev/berth/agent/settings"
	"berth.dev/berth/core/health"
)

func TestXidsOfTheEnvironmentAreThePolicys(t *testing.T) {
	o, err := settings.New(nil, func(name string) string {
		return map[string]string{"DP_DISABLE_HEALTHCHECKS": "109, 48", "DP_ENABLE_HEALTHCHECKS": "94"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	a := agent{o: Options{Settings: o}}
	if a.loadInitialSettings() {
		t.Fatal("the settings are refused")
	}
	s := a.initial
	p := health.NewPolicy(s.Health.Disable, s.Health.Enable)
	if p.Marks(109) || p.Marks(48) || !p.Marks(94) || !p.Marks(79) {
		t.Errorf("109 %t, 48 %t, 94 %t, 79 %t; want 109 and 48 off, 94 and 79 on", p.Marks(109), p.Marks(48), p.Marks(94), p.Marks(79))
	}
}

func TestLabelsForNodeFeatureDiscovery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gfd")
	for range 2 {
		if err := writeFeatures(path, map[string]string{"b": "2", "a": "1"}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "a=1\nb=2\n" {
		t.Errorf("the file has %q, %v; want the labels in order", got, err)
	}
	if err := writeFeatures(filepath.Join(path, "below-a-file"), nil); err == nil {
		t.Error("a file that cannot be written is no error")
	}
}

func TestSettingsWithoutEffectAreSaid(t *testing.T) {
	if got := unused(config.DefaultSettings()); got != nil {
		t.Errorf("of the defaults %q is said to have no effect", got)
	}
	s := config.DefaultSettings()
	s.GFD.Oneshot, s.CDIDisableHooks, s.KubeletSocket = true, []string{"all"}, "/elsewhere"
	if got := unused(s); len(got) != 3 {
		t.Errorf("%q, want three sentences", got)
	}
}
