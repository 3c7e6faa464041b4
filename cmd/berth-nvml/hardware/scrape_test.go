package hardware_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/cmd/berth-nvml/hardware"
)

func TestCompareWithDCGM(t *testing.T) {
	const ours = `# HELP DCGM_FI_DEV_GPU_TEMP GPU temperature (in C).
# TYPE DCGM_FI_DEV_GPU_TEMP gauge
DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",modelName="NVIDIA H200",pod="a \"b\" }, c"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1"} 41
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-0"} 0
DCGM_FI_DEV_SM_CLOCK{gpu="2",UUID="GPU-2",GPU_I_PROFILE="1g.18gb",GPU_I_ID="7"} 345
berth_gpu_held 0
berth_gpu_healthy{UUID="GPU-0"} 1
`
	for name, tt := range map[string]struct {
		dcgm string
		want hardware.Comparison
	}{
		"readings of the same GPUs within their tolerance": {
			`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",device="nvidia0",Hostname="n"} 43 1395066363000
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1",device="nvidia1"} 41
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-0"} 0`,
			hardware.Comparison{Equal: []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_GPU_TEMP"}},
		},
		"a reading beyond its tolerance, and a count that differs by one": {
			`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 46
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1"} 41
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-0"} 1`,
			hardware.Comparison{Different: []string{
				"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL of GPU-0: 0, dcgm-exporter says 1; 0 or 0% would do",
				"DCGM_FI_DEV_GPU_TEMP of GPU-0: 40, dcgm-exporter says 46; 5 or 0% would do",
			}},
		},
		"GPUs and fields that only one of them has": {
			`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="2",UUID="GPU-2"} 50
DCGM_FI_DEV_XID_ERRORS{gpu="0",UUID="GPU-0"} 0`,
			hardware.Comparison{
				Different: []string{"DCGM_FI_DEV_GPU_TEMP of GPU-1: only our exporter has it, 41", "DCGM_FI_DEV_GPU_TEMP of GPU-2: only dcgm-exporter has it, 50"},
				OnlyOurs:  []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}, OnlyDCGM: []string{"DCGM_FI_DEV_XID_ERRORS"},
			},
		},
		"values by which DCGM says that it has none": {
			`DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0"} 40
DCGM_FI_DEV_GPU_TEMP{gpu="1",UUID="GPU-1"} 41
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-0"} 9223372036854775794
DCGM_FI_DEV_MEMORY_TEMP{gpu="0",UUID="GPU-0"} 9223372036854775792`,
			hardware.Comparison{Equal: []string{"DCGM_FI_DEV_GPU_TEMP"}, OnlyOurs: []string{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := hardware.ReadScrape(strings.NewReader(ours))
			if err != nil {
				t.Fatal(err)
			}
			b, err := hardware.ReadScrape(strings.NewReader(tt.dcgm))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, hardware.Compare(a, b)); d != "" {
				t.Errorf("Compare: -want +got\n%s", d)
			}
		})
	}
}

func TestReadScrapeThatIsNone(t *testing.T) {
	for name, text := range map[string]string{
		"labels without an end": `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0" 40`,
		"a value that is none":  `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0"} warm`,
		"no value":              `DCGM_FI_DEV_GPU_TEMP{UUID="GPU-0"}`,
	} {
		if got, err := hardware.ReadScrape(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v, %v, want an error that names the line", name, got, err)
		}
	}
}
