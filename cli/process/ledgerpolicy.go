package process

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/usage"
)

// LedgerPolicy says what the ledger keeps, and what it counts as stranded: see docs/cost.md.
type LedgerPolicy struct {
	Keep     time.Duration // facts that are older are removed; 0 is never
	Export   string        // a folder for a file of each day; "" is none
	Smallest usage.Room    // CPU and memory that the smallest pod with a GPU needs
	ReadingsPolicy

	UsageDays   int // of how many last days GPUUsageDays are kept; 0 is none
	days        int
	cpu, memory string
}

// AddFlags are those of the process that writes the ledger, wherever it runs.
func (p *LedgerPolicy) AddFlags(f *pflag.FlagSet) {
	f.IntVar(&p.days, "ledger-keep-days", 400, "remove from the ledger what is older: intervals, use, and the audit trail; sums of days are kept; 0 keeps everything")
	f.StringVar(&p.Export, "ledger-export", "", "folder to write a CSV file to for each day when it is closed")
	f.IntVar(&p.UsageDays, "usage-days", 62, "days to keep a GPUUsageDay of for each namespace, where these are defined; 0 writes none")
	f.StringVar(&p.cpu, "smallest-cpu", "1", "CPU of the smallest pod with a GPU: free GPUs of a node with less left are stranded")
	f.StringVar(&p.memory, "smallest-memory", "1Gi", "the same for memory")
	p.ReadingsPolicy.addFlags(f)
}

// Check refuses what cannot be meant.
func (p *LedgerPolicy) Check() error {
	if p.days < 0 || p.days > 36_500 {
		return term.Usagef("invalid --ledger-keep-days %d: must be a number of days, or 0 to keep everything", p.days)
	}
	if p.UsageDays < 0 || p.UsageDays > 400 {
		return term.Usagef("invalid --usage-days %d: must be a number of days up to 400, or 0 to write none", p.UsageDays)
	}
	cpu, err := resource.ParseQuantity(p.cpu)
	if err != nil || cpu.Sign() < 0 {
		return term.Usagef("invalid --smallest-cpu %q: must be an amount such as 1 or 500m", p.cpu)
	}
	memory, err := resource.ParseQuantity(p.memory)
	if err != nil || memory.Sign() < 0 {
		return term.Usagef("invalid --smallest-memory %q: must be an amount such as 1Gi", p.memory)
	}
	if err := p.ReadingsPolicy.check(); err != nil {
		return err
	}
	if p.Export != "" { // a process in the background may have another folder
		if p.Export, err = filepath.Abs(p.Export); err != nil {
			return err
		}
	}
	p.Keep = time.Duration(p.days) * 24 * time.Hour
	p.Smallest = usage.Room{MilliCPU: cpu.MilliValue(), MemoryBytes: memory.Value()}
	return nil
}

// Args are the flags that give p, for another process.
func (p *LedgerPolicy) Args() []string {
	return append([]string{"--ledger-keep-days", strconv.Itoa(p.days), "--ledger-export", p.Export, "--usage-days", strconv.Itoa(p.UsageDays), "--smallest-cpu", p.cpu, "--smallest-memory", p.memory}, p.ReadingsPolicy.args()...)
}
