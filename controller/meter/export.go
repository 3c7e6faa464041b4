package meter

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"berth.dev/berth/core/cost"
	"berth.dev/berth/core/quota"
)

// exportDays writes the days that have no file in the folder of exports yet, and the one that was closed last, which may have been closed again.
func (m *Meter) exportDays(ctx context.Context) error {
	if m.o.Export == "" {
		return nil
	}
	days, err := m.book.Days(ctx)
	if err != nil {
		return err
	}
	last, err := m.book.LastClosed(ctx)
	if err != nil {
		return err
	}
	for _, day := range days {
		path := filepath.Join(m.o.Export, day.Format(time.DateOnly)+".csv")
		if _, err := os.Stat(path); err == nil && !day.Equal(last) {
			continue
		}
		rows, err := m.book.DayRows(ctx, day)
		if err == nil {
			err = writeFile(path, dayCSV(day, rows))
		}
		if err != nil {
			return fmt.Errorf("export %s: %w", day.Format(time.DateOnly), err)
		}
	}
	return nil
}

// dayCSV is the sums of a day for spreadsheets: amounts are exact.
func dayCSV(day time.Time, rows []cost.DayRow) []byte {
	var text bytes.Buffer
	out := csv.NewWriter(&text)
	_ = out.Write([]string{"day", "namespace", "user", "queue", "product", "what", "reason", "gpuHours", "unpricedGPUHours", "cost", "currency"}) // nothing fails in memory
	hours := func(partMillis int64) string {
		return strconv.FormatFloat(float64(partMillis)/quota.Whole/float64(time.Hour.Milliseconds()), 'f', -1, 64)
	}
	for i := range rows {
		r := &rows[i]
		_ = out.Write([]string{
			day.Format(time.DateOnly), r.Namespace, r.User, r.Queue, r.Product, r.What.String(), string(r.Reason), hours(r.PartMillis), hours(r.Unpriced),
			fmt.Sprintf("%d.%06d", r.Micros/1_000_000, r.Micros%1_000_000), r.Currency,
		})
	}
	out.Flush()
	return text.Bytes()
}

// writeFile replaces a file as a whole.
func writeFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".export-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
