import { describe, expect, test } from 'vitest';
import cases from '../../crates/freestone-report/src/charts.cases.json';
import { significant, thousands, tick } from '../src/formats';
import { axisName, axisOfAmounts, axisOfPoints, axisOfRange, axisOfValues, colourOfDesign, roundStep, strokes, ticks, type Axis } from '../src/rules';

const shape = ({ least, most, isLogarithmic, ticks: at }: Axis) => ({ logarithmic: isLogarithmic, ends: [least, most], ticks: at });

/** The laboratory's report is tested with the same cases. */
describe('charts of the report and of the console', () => {
  test.each(cases.numbers as [number, string, string][])('%s is %s, and %s at a tick', (value, text, short) => expect([significant(value), tick(value)]).toEqual([text, short]));
  test.each(cases.thousands as [number, string][])('thousands(%s) is %s', (value, text) => expect(thousands(value)).toBe(text));
  test.each(cases.steps as [number, number][])('the step for %s is %s', (least, step) => expect(roundStep(least)).toBeCloseTo(step, 12));
  test.each(cases.values as [number[], object][])('the axis of %s', (values, axis) => expect(shape(axisOfValues(values))).toEqual(axis));
  test.each(cases.points as [number[], object][])('the axis with points %s', (points, axis) => expect(shape(axisOfPoints(points))).toEqual(axis));
  test.each(cases.strokes as [string[], string[]][])('the strokes of %s', (labels, expected) => expect(strokes(labels).map(({ colour, stroke }) => `${colour} ${stroke}`)).toEqual(expected));
});

test('axes that only the console has', () => {
  expect(shape(axisOfAmounts([1, 990]))).toEqual({ logarithmic: false, ends: [0, 1000], ticks: [0, 500, 1000] });
  expect(shape(axisOfRange([281, 299], false))).toEqual({ logarithmic: false, ends: [280, 300], ticks: [280, 285, 290, 295, 300] });
  expect(shape(axisOfRange([5, 5], false)).ends).toEqual([4, 6]);
  expect(shape(axisOfRange([2, 900], true))).toEqual({ logarithmic: true, ends: [1, 1000], ticks: [1, 10, 100, 1000] });
  expect(axisOfRange([-2, 900], true).isLogarithmic).toBe(false);
  expect(axisName('ns', axisOfValues([1, 1000]))).toBe('ns (logarithmic)');
  expect(colourOfDesign('constructor')).toBeNull();
});

test('ticks are round and inside', () => {
  expect(ticks(0, 100, 4)).toEqual([0, 50, 100]);
  expect(ticks(-30, 12, 4)).toEqual([-20, 0]);
  expect(ticks(5, 5, 4)).toEqual([5]);
});
