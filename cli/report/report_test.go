package report

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/audit"
	core "berth.dev/berth/core/cost"
)

var now = time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC)

// week is a week of one team, with a name that would act in a page.
func week() *facts {
	use := 0.42
	return &facts{
		cost: core.Report{From: now.AddDate(0, 0, -7), To: now, Began: now.AddDate(0, 0, -8), Rows: []core.ReportRow{
			{Name: "vision", What: "held", GPUHours: 612.4, CostMicros: 1_680_930_000, Currency: "USD"},
			{What: "idle", GPUHours: 480.05, CostMicros: 1_317_620_000, Currency: "USD"},
			{What: "stranded", Reason: "cordoned", GPUHours: 64, CostMicros: 175_660_000, Currency: "USD"},
		}},
		users:     core.UseReport{GraceSeconds: 600, Rows: []core.UseReportRow{{Name: "<script>|x", GPUHours: 612.4, IdleGPUHours: 200, CostMicros: 1_680_930_000, IdleMicros: 548_000_000, Currency: "USD", Utilization: &use}}},
		workloads: core.UseReport{Rows: []core.UseReportRow{{Name: "vision/Job/wide", GPUHours: 300, KnownGPUHours: 300, GPUsOfAPod: 8, BusyOfAPod: 1, CostMicros: 823_000_000, Currency: "USD", Utilization: &use}}},
		audit:     audit.Report{Rows: []audit.Row{{At: now.Add(-time.Hour), Act: audit.Asked, UID: "p", Queue: "red"}, {At: now, Act: audit.Granted, UID: "p", Queue: "red"}}},
	}
}

func TestTheMarkdown(t *testing.T) {
	got := pageOf(week()).markdown()
	for _, want := range []string{
		"# GPUs from 2026-11-17 15:00 UTC to 2026-11-24 15:00 UTC\n",
		"| vision | 612.40 | 1680.93 USD |\n| (idle) | 480.05 | 1317.62 USD |\n| (stranded: cordoned) | 64.00 | 175.66 USD |\n",
		`| &lt;script>\|x | 612.40 | 200.00 | 1680.93 USD | 548.00 USD | 42% |`,
		"| vision/Job/wide | 300.00 | 823.00 USD | a pod asks for 8 GPUs, and never used more than 1 at once |",
		"| red | 1 | 60m | 60m | 60m | 0 |",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the page is\n%s\nand lacks\n%s", got, want)
		}
	}
}

func TestTheHTMLIsOneFileAndEscapesNames(t *testing.T) {
	got := pageOf(week()).html()
	for _, wrong := range []string{"<script", "http:", "https:", "src="} {
		if strings.Contains(got, wrong) {
			t.Errorf("the page has %s:\n%s", wrong, got)
		}
	}
	if !strings.Contains(got, "&lt;script&gt;|x") || !strings.Contains(got, `<rect width="160.0"`) || strings.Count(got, "<svg") != 6 {
		t.Errorf("the page lacks a name or bars:\n%s", got)
	}
}
