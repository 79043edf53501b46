// Draws the report's charts from the data in the page. Without Chart.js the page shows its tables alone.
(function () {
  'use strict';
  const root = document.documentElement;
  if (typeof Chart === 'undefined') { root.classList.add('no-charts'); return; }
  const data = JSON.parse(document.getElementById('report-data').textContent);
  const charts = [];

  function colour(name) { return getComputedStyle(root).getPropertyValue(name).trim(); }
  function series(i) { return colour('--series-' + (i % 8 + 1)); }
  function faint(hex, alpha) {
    const n = parseInt(hex.slice(1), 16);
    return 'rgba(' + (n >> 16) + ',' + ((n >> 8) & 255) + ',' + (n & 255) + ',' + alpha + ')';
  }
  function axis(title, more) {
    return Object.assign({
      title: { display: true, text: title, color: colour('--soft') },
      ticks: { color: colour('--soft'), maxRotation: 0, autoSkipPadding: 12 },
      grid: { color: colour('--line') }
    }, more);
  }
  function options(x, y, more) {
    return Object.assign({
      animation: false, responsive: true, maintainAspectRatio: false,
      interaction: { mode: 'index', intersect: false },
      scales: { x: x, y: y },
      plugins: { legend: { position: 'bottom', labels: { color: colour('--ink'), boxWidth: 14, boxHeight: 10, padding: 14 } } }
    }, more);
  }
  function line(label, points, i, more) {
    return Object.assign({
      label: label, data: points, borderColor: series(i), backgroundColor: series(i), borderWidth: 2, pointRadius: 0,
      pointHitRadius: 8, tension: 0
    }, more);
  }
  function percent(value) { return Math.round(100 * value) + ' %'; }

  // Draws the middle half of the prompts as a whisker on each bar, and a line at "as fast as the target alone".
  const spreadMarks = {
    id: 'spreadMarks',
    afterDatasetsDraw: function (chart) {
      const c = chart.ctx, y = chart.scales.y, area = chart.chartArea;
      c.save();
      c.strokeStyle = colour('--ink');
      c.lineWidth = 1.5;
      chart.data.datasets.forEach(function (set, s) {
        if (!set.spread || !chart.isDatasetVisible(s)) return;
        chart.getDatasetMeta(s).data.forEach(function (bar, i) {
          const range = set.spread[i];
          if (!range) return;
          const top = y.getPixelForValue(range[1]), bottom = y.getPixelForValue(range[0]), w = Math.min(6, bar.width / 3);
          c.beginPath();
          c.moveTo(bar.x, top); c.lineTo(bar.x, bottom);
          c.moveTo(bar.x - w, top); c.lineTo(bar.x + w, top);
          c.moveTo(bar.x - w, bottom); c.lineTo(bar.x + w, bottom);
          c.stroke();
        });
      });
      c.setLineDash([5, 4]);
      c.lineWidth = 1.2;
      c.beginPath();
      c.moveTo(area.left, y.getPixelForValue(1)); c.lineTo(area.right, y.getPixelForValue(1));
      c.stroke();
      c.restore();
    }
  };

  function speedChart() {
    const lengths = Array.from(new Set(data.benches.flatMap(function (b) { return b.ways.map(function (w) { return w.drafted; }); })));
    lengths.sort(function (a, b) { return a - b; });
    const sets = data.benches.map(function (bench, i) {
      const of = lengths.map(function (k) { return bench.ways.find(function (w) { return w.drafted === k; }); });
      return {
        label: bench.label, backgroundColor: series(i), maxBarThickness: 46,
        data: of.map(function (w) { return w ? w.speedup : null; }),
        spread: of.map(function (w) { return w && w.quartiles; })
      };
    });
    const tops = sets.flatMap(function (set) { return set.spread.map(function (range) { return range ? range[1] : 0; }); });
    return {
      type: 'bar', data: { labels: lengths, datasets: sets }, plugins: [spreadMarks],
      options: options(axis('drafted tokens a round', { grid: { display: false } }),
                       axis('speed, target alone = 1', { beginAtZero: true, suggestedMax: 1.08 * Math.max(1.1, ...tops) }))
    };
  }

  function costChart(bench) {
    const labels = bench.ways.map(function (w) { return w.drafted; });
    function part(name, key, i) {
      return { label: name, data: bench.ways.map(function (w) { return w[key]; }), backgroundColor: series(i), stack: 'cost',
               maxBarThickness: 46, order: 2 };
    }
    const yielded = line('tokens it yields', bench.ways.map(function (w) { return w.yields; }), 2,
                         { type: 'line', stack: 'yield', pointRadius: 4, borderWidth: 3, order: 1 });
    return {
      type: 'bar',
      data: { labels: labels, datasets: [part('checking', 'verify', 0), part('drafting', 'draft', 1), part('rest', 'rest', 6), yielded] },
      options: options(axis('drafted tokens a round', { stacked: true, grid: { display: false } }),
                       axis('plain steps, and tokens', { stacked: true, beginAtZero: true }))
    };
  }

  function acceptanceChart() {
    const sets = [];
    let most = 0;
    data.benches.forEach(function (bench, i) {
      const longest = bench.ways[bench.ways.length - 1];
      if (!longest) return;
      most = Math.max(most, longest.acceptance.length);
      sets.push(line(bench.label + ', of all rounds', longest.acceptance, i, { pointRadius: 4 }));
      sets.push(line(bench.label + ', when all before were right', longest.given, i, { pointRadius: 3, borderDash: [6, 4], borderWidth: 1.5 }));
    });
    const labels = Array.from({ length: most }, function (_, i) { return i + 1; });
    return {
      type: 'line', data: { labels: labels, datasets: sets },
      options: options(axis('position in the drafted chain'),
                       axis('guesses that were right', { min: 0, max: 1, ticks: { color: colour('--soft'), callback: percent } }))
    };
  }

  function lossChart() {
    return {
      type: 'line',
      data: { datasets: [
        line('training', data.loss.train, 0, { borderWidth: 1.5, borderColor: faint(series(0), 0.75) }),
        line('validation (never trained on)', data.loss.validation, 1, { pointRadius: 3 })
      ] },
      options: options(axis('training step', { type: 'linear' }), axis('loss'), { interaction: { mode: 'nearest', axis: 'x', intersect: false } })
    };
  }

  function accuracyChart() {
    return {
      type: 'line',
      data: { datasets: data.accuracy.map(function (points, i) {
        return line('guess ' + (i + 1), points, i, { pointRadius: points.length > 40 ? 0 : 2 });
      }) },
      options: options(axis('training step', { type: 'linear' }),
                       axis('right guesses on validation text', { min: 0, suggestedMax: 0.6, ticks: { color: colour('--soft'), callback: percent } }),
                       { interaction: { mode: 'nearest', axis: 'x', intersect: false } })
    };
  }

  const makers = { 'chart-speed': speedChart, 'chart-acceptance': acceptanceChart, 'chart-loss': lossChart, 'chart-accuracy': accuracyChart };
  data.benches.forEach(function (bench, i) { makers['chart-cost-' + i] = function () { return costChart(bench); }; });

  function draw() {
    while (charts.length) charts.pop().destroy();
    Object.keys(makers).forEach(function (id) {
      const canvas = document.getElementById(id);
      if (canvas) charts.push(new Chart(canvas, makers[id]()));
    });
  }
  draw();
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
  window.addEventListener('beforeprint', function () {
    root.classList.add('printing');
    document.querySelectorAll('details').forEach(function (d) { d.open = true; });
    draw();
  });
  window.addEventListener('afterprint', function () { root.classList.remove('printing'); draw(); });
})();
