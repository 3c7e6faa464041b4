package cost

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"

	core "berth.dev/berth/core/cost"
)

// focusColumns are those of FOCUS 1.2 that a row of the ledger has a value for or must have, in the order of the alphabet, and
// columns of Berth, which begin with x_.
var focusColumns = []string{
	"BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd", "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency",
	"ChargePeriodEnd", "ChargePeriodStart", "ConsumedQuantity", "ConsumedUnit", "ContractedCost", "EffectiveCost", "InvoiceIssuerName", "ListCost", "PricingCategory", "PricingQuantity", "PricingUnit",
	"ProviderName", "PublisherName", "ServiceCategory", "ServiceName", "SubAccountId", "SubAccountName", "Tags", "x_Held", "x_Reason", "x_UnpricedQuantity",
}

// gpuHours is the unit of quantities.
const gpuHours = "GPU-Hours"

// months are the parts of a question that are in one month each: charges of FOCUS are within a billing period.
func months(q *core.Question) (parts []core.Question) {
	for from := q.From.UTC(); from.Before(q.To); {
		part := *q
		part.From, part.To = from, time.Date(from.Year(), from.Month()+1, 1, 0, 0, 0, 0, time.UTC)
		if part.To.After(q.To) {
			part.To = q.To
		}
		parts = append(parts, part)
		from = part.To
	}
	return parts
}

// writeFOCUS writes reports, each of a month or a part of one, as a table of the FinOps Open Cost and Usage Specification. Nothing
// is invoiced: each cost is what the ledger charges. Rows without a price cost 0.
func writeFOCUS(w io.Writer, list []*core.Report) error {
	out := csv.NewWriter(w)
	_ = out.Write(focusColumns) // Flush tells
	for _, r := range list {
		if err := focusRows(out, r); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

func focusRows(out *csv.Writer, r *core.Report) error {
	start := time.Date(r.From.UTC().Year(), r.From.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 1, 0)
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	for i := range r.Rows {
		row := &r.Rows[i]
		amount := fmt.Sprintf("%d.%06d", row.CostMicros/1_000_000, row.CostMicros%1_000_000)
		quantity := strconv.FormatFloat(row.GPUHours, 'f', -1, 64)
		currency := row.Currency
		if currency == "" {
			currency = "USD" // the column must have one; the cost is 0
		}
		tags, err := json.Marshal(map[string]string{string(r.By): row.Name})
		if err != nil {
			return err
		}
		values := map[string]string{
			"BilledCost": amount, "EffectiveCost": amount, "ContractedCost": amount, "ListCost": amount, "BillingCurrency": currency,
			"BillingAccountId": "berth", "BillingAccountName": "Berth", "BillingPeriodStart": stamp(start), "BillingPeriodEnd": stamp(end), "ChargePeriodStart": stamp(r.From), "ChargePeriodEnd": stamp(r.To),
			"ChargeCategory": "Usage", "ChargeDescription": "GPUs: " + name(row), "ChargeFrequency": "Usage-Based", "ConsumedQuantity": quantity, "ConsumedUnit": gpuHours,
			"PricingCategory": "Standard", "PricingQuantity": quantity, "PricingUnit": gpuHours, "InvoiceIssuerName": "Berth", "ProviderName": "Berth", "PublisherName": "Berth",
			"ServiceCategory": "Compute", "ServiceName": "GPUs", "SubAccountId": row.Name, "SubAccountName": row.Name, "Tags": string(tags),
			"x_Held": row.What, "x_Reason": row.Reason, "x_UnpricedQuantity": strconv.FormatFloat(row.UnpricedGPUHours, 'f', -1, 64),
		}
		line := make([]string, len(focusColumns))
		for k, column := range focusColumns {
			line[k] = values[column]
		}
		_ = out.Write(line)
	}
	return nil
}
