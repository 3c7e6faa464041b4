package quota_test

import (
	"math"
	"testing"
	"time"

	"berth.dev/berth/core/quota"
)

func TestDecay(t *testing.T) {
	const half = 7 * 24 * time.Hour
	start := quota.Decay{At: epoch}
	full := half.Seconds() / math.Ln2 // what 1 GPU comes to in the end
	tests := map[string]struct {
		from  quota.Decay
		after time.Duration
		gpus  int64
		half  time.Duration
		want  float64
	}{
		"nothing held is nothing used":                    {start, half, 0, half, 0},
		"an hour counts nearly whole at its end":          {start, time.Hour, 2, half, 7200 * (1 - 1.0/(2*168)*math.Ln2)},
		"after one half-life of holding half of the most": {start, half, 1, half, full / 2},
		"what was used counts half after a half-life":     {quota.Decay{Value: 1000, At: epoch}, half, 0, half, 500},
		"and a quarter after two":                         {quota.Decay{Value: 1000, At: epoch}, 2 * half, 0, half, 250},
		"without a half-life the past does not count":     {quota.Decay{Value: 1000, At: epoch}, half, 5, 0, 0},
		"a clock that goes back changes nothing":          {quota.Decay{Value: 1000, At: epoch}, -time.Hour, 5, half, 1000},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.from.To(epoch.Add(tt.after), tt.gpus*quota.Whole, tt.half)
			if math.Abs(got.Value-tt.want) > 1e-3*max(1, tt.want) {
				t.Errorf("used %.1f GPU-seconds, want %.1f", got.Value, tt.want)
			}
		})
	}
	t.Run("in two steps as in one", func(t *testing.T) {
		one := start.To(epoch.Add(half), 3*quota.Whole, half)
		two := start.To(epoch.Add(half/3), 3*quota.Whole, half).To(epoch.Add(half), 3*quota.Whole, half)
		if math.Abs(one.Value-two.Value) > 1e-6*one.Value {
			t.Errorf("%f and %f", one.Value, two.Value)
		}
	})
}
