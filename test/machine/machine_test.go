package machine_test

import (
	"os"
	"testing"
	"time"

	"berth.dev/berth/test/machine"
)

func TestTheMachineHasCPUTime(t *testing.T) {
	got, err := machine.CPU()
	if _, missing := os.Stat("/proc/stat"); missing != nil {
		if err == nil || got != (machine.Times{}) {
			t.Errorf("CPU time %+v without /proc/stat: %v", got, err)
		}
		return
	}
	if err != nil || got.All <= 0 || got.Idle < 0 || got.Idle > got.All {
		t.Errorf("CPU time %+v, %v", got, err)
	}
}

func TestIdles(t *testing.T) {
	before := machine.Times{All: 10 * time.Second, Idle: 4 * time.Second}
	now := machine.Times{All: 30 * time.Second, Idle: 9 * time.Second}
	if part, ok := now.Since(before).Idles(); !ok || part != 0.25 {
		t.Errorf("it idled for %v of the time, %v, want a quarter", part, ok)
	}
	if part, ok := now.Since(now).Idles(); ok || part != 0 {
		t.Errorf("it idled for %v of no time, %v", part, ok)
	}
}

func TestAProcessHasCPUTime(t *testing.T) {
	if _, missing := os.Stat("/proc/self/stat"); missing == nil {
		if used, err := machine.ProcessCPU(os.Getpid()); err != nil || used < 0 || used > time.Hour {
			t.Errorf("this process has used %v, %v", used, err)
		}
	}
	if used, err := machine.ProcessCPU(-1); err == nil || used != 0 {
		t.Errorf("a process that does not exist has used %v", used)
	}
}
