package cost

import "time"

// listed is what a provider asks for an instance type, in millionths of a US dollar an hour.
type listed struct {
	instance, region string
	onDemand, spot   int64 // spot 0: it changes by the hour, and there is no list
	list             int   // of lists
}

// list is where list prices are from.
type list struct {
	name string
	date time.Time
}

func day(year int, month time.Month, d int) time.Time {
	return time.Date(year, month, d, 0, 0, 0, 0, time.UTC)
}

// The lists. Sources: aws/karpenter-provider-aws zz_generated.pricing_aws.go, cloudpilot-ai/karpenter-provider-gcp and
// skypilot-catalog, and Azure/karpenter-provider-azure, as of their dates.
var lists = []list{
	{"list price of AWS", day(2026, 7, 20)},
	{"list price of Google Cloud", day(2026, 8, 1)},
	{"list price of Azure", day(2026, 6, 18)},
}

// catalog has each instance type once. Prices of Google's instance types with an attached GPU are not in it: their
// name does not say which GPU.
var catalog = []listed{
	{"g4dn.xlarge", "us-east-1", 526_000, 0, 0},
	{"g4dn.12xlarge", "us-east-1", 3_912_000, 0, 0},
	{"g5.xlarge", "us-east-1", 1_006_000, 0, 0},
	{"g6.xlarge", "us-east-1", 804_800, 0, 0},
	{"g6e.xlarge", "us-east-1", 1_861_000, 0, 0},
	{"p2.xlarge", "us-east-1", 900_000, 0, 0},
	{"p3.2xlarge", "us-east-1", 3_060_000, 0, 0},
	{"p3.8xlarge", "us-east-1", 12_240_000, 0, 0},
	{"p3.16xlarge", "us-east-1", 24_480_000, 0, 0},
	{"p4d.24xlarge", "us-east-1", 21_957_642, 0, 0},
	{"p4de.24xlarge", "us-east-1", 27_447_050, 0, 0},
	{"p5.4xlarge", "us-east-1", 6_880_000, 0, 0},
	{"p5.48xlarge", "us-east-1", 55_040_000, 0, 0},
	{"p5en.48xlarge", "us-east-1", 63_296_000, 0, 0},
	{"p6-b200.48xlarge", "us-east-1", 113_932_800, 0, 0},
	{"a2-highgpu-1g", "us-central1", 3_673_385, 0, 1}, // two lists differ on its spot price
	{"a3-highgpu-1g", "us-central1", 11_061_250, 6_326_000, 1},
	{"a3-highgpu-8g", "us-central1", 88_490_000, 50_610_000, 1},
	{"g2-standard-4", "us-central1", 706_800, 397_300, 1},
	{"Standard_NC4as_T4_v3", "eastus", 526_000, 0, 2},
	{"Standard_NC6s_v3", "eastus", 3_060_000, 0, 2},
	{"Standard_NC24s_v3", "eastus", 12_240_000, 0, 2},
	{"Standard_NC24ads_A100_v4", "eastus", 3_673_000, 0, 2},
	{"Standard_NC96ads_A100_v4", "eastus", 14_692_000, 0, 2},
	{"Standard_NC40ads_H100_v5", "eastus", 6_980_000, 0, 2},
	{"Standard_ND96isr_H100_v5", "eastus", 98_320_000, 0, 2},
	{"Standard_ND96asr_v4", "eastus", 27_197_000, 0, 2},
	{"Standard_ND96amsr_A100_v4", "eastus", 32_770_000, 0, 2},
}

// find returns what is listed for an instance type; nil is nothing.
func find(instance string) *listed {
	for i := range catalog {
		if catalog[i].instance == instance {
			return &catalog[i]
		}
	}
	return nil
}

// ListDate is the date of the list of prices that a Quote's Source names. known is false for other sources.
func ListDate(source string) (date time.Time, known bool) {
	for _, l := range lists {
		if source == l.source() {
			return l.date, true
		}
	}
	return time.Time{}, false
}

// source is how quotes name a list.
func (l list) source() string { return l.name + ", " + l.date.Format(time.DateOnly) }
